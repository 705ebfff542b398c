-- History by month. There is no DEFAULT partition: with one, DETACH CONCURRENTLY is refused, and a plain DETACH makes every
-- stage queue behind it. Months are made well ahead, by the migration and by the recover loop.

create function acuse.uuid7() returns uuid language sql volatile
  set search_path = pg_catalog, pg_temp
  return encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;
comment on function acuse.uuid7() is 'UUID version 7 by the database clock: ids sort by time, and history is partitioned by them.';

create function acuse.uuid7_floor(p_at timestamptz) returns uuid language sql immutable
  set search_path = pg_catalog, pg_temp
  return rpad(lpad(to_hex((extract(epoch from p_at) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
comment on function acuse.uuid7_floor(timestamptz) is 'The lowest id that can have been made at a time.';

create function acuse.ensure_partitions(p_months int) returns int language plpgsql
  set search_path = acuse, pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  v_month timestamptz; v_table text; v_name text; v_made int := 0;
begin
  if p_months not between 1 and 120 then
    raise exception 'ensure_partitions: months is %, give 1 to 120', p_months;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('acuse.partitions', 0));
  for i in -1 .. p_months loop     -- one month back: ids are made before their row is
    v_month := date_trunc('month', clock_timestamp()) + make_interval(months => i);
    foreach v_table in array array['payload', 'attempt', 'evidence', 'ledger', 'run_message', 'tool_call'] loop
      v_name := v_table || to_char(v_month, '_YYYYMM');
      continue when to_regclass('acuse.' || v_name) is not null;
      -- Not CREATE … PARTITION OF: it locks the parent exclusively, and behind one long transaction every stage would queue.
      execute format('create table acuse.%I (like acuse.%I including constraints including defaults including storage)', v_name, v_table);
      execute format('alter table acuse.%I attach partition acuse.%I for values from (%L) to (%L)', v_table, v_name,
                     acuse.uuid7_floor(v_month), acuse.uuid7_floor(v_month + interval '1 month'));
      if v_table in ('evidence', 'ledger') then
        execute format('create trigger never_truncated before truncate on acuse.%I execute function acuse.refuse_rewriting()', v_name);
      end if;
      v_made := v_made + 1;
    end loop;
  end loop;
  return v_made;
end $$;
