-- What the database itself refuses, whoever asks.

-- The same table as in acuse/protocol/arrow.py; a test tries all pairs.
create function acuse.refuse_illegal_arrow() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    if new.status <> 'prepared' then
      raise exception 'an operation is born prepared, not %', new.status using errcode = 'check_violation', constraint = 'arrows';
    end if;
    return new;
  end if;
  if (old.status, new.status) not in (
      ('prepared', 'dispatching'), ('prepared', 'confirmed'), ('prepared', 'rejected'), ('prepared', 'unknown'),
      ('dispatching', 'confirmed'), ('dispatching', 'prepared'), ('dispatching', 'rejected'), ('dispatching', 'unknown'),
      ('unknown', 'dispatching'), ('unknown', 'prepared'), ('unknown', 'confirmed'), ('unknown', 'rejected')) then
    raise exception 'no arrow leads from % to %', old.status, new.status using errcode = 'check_violation', constraint = 'arrows';
  end if;
  return new;
end $$;
create trigger arrows_born before insert on acuse.operation for each row execute function acuse.refuse_illegal_arrow();
create trigger arrows_moved before update of status on acuse.operation for each row
  when (old.status is distinct from new.status) execute function acuse.refuse_illegal_arrow();

-- Numbers that only rise, and facts that never change.
create function acuse.refuse_regress() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp as $$
begin
  if new.fence < old.fence then
    raise exception 'a fencing token never falls' using errcode = 'check_violation', constraint = 'fence_rises';
  end if;
  if new.version <= old.version then
    raise exception 'every change raises the record version' using errcode = 'check_violation', constraint = 'version_rises';
  end if;
  if (new.id, new.tenant, new.effect_key, new.generation, new.action, new.account, new.target, new.digest)
     is distinct from (old.id, old.tenant, old.effect_key, old.generation, old.action, old.account, old.target, old.digest) then
    raise exception 'what an operation is never changes: stage another' using errcode = 'check_violation', constraint = 'identity_fixed';
  end if;
  return new;
end $$;
create trigger only_forward before update on acuse.operation for each row execute function acuse.refuse_regress();

create function acuse.refuse_rewriting() returns trigger language plpgsql
  set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    if not exists (select 1 from acuse.operation where id = old.operation_id) then
      return old;
    end if;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'check_violation', constraint = 'append_only';
end $$;
create trigger append_only before update or delete on acuse.ledger for each row execute function acuse.refuse_rewriting();
create trigger append_only before update or delete on acuse.evidence for each row execute function acuse.refuse_rewriting();
create trigger never_truncated before truncate on acuse.ledger execute function acuse.refuse_rewriting();
create trigger never_truncated before truncate on acuse.evidence execute function acuse.refuse_rewriting();
