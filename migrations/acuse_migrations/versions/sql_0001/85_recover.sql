-- recover: what nobody works on any more. Everything here is judged on the operation's row alone, whatever became of the worker.

-- p_before: when the round began. What comes due during a round is for the next one, so that every round ends, and hands over
-- all that was due when it began, whoever it belongs to.
create function acuse.expire_claims(p_limit int, p_before timestamptz default null) returns table (id uuid, was text)
  language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare o operation%rowtype; v_from text;
begin
  set local synchronous_commit = on;
  for o in select * from operation where claim_until is not null and claim_until < coalesce(p_before, clock_timestamp())
            order by claim_until limit p_limit for no key update skip locked loop
    v_from := o.status;
    -- An expired claim on dispatching becomes unknown; on anything else it just ends.
    update operation t set claim_until = null, version = t.version + 1, updated_at = clock_timestamp(), handed_at = clock_timestamp(),
           status = case when t.status = 'dispatching' then 'unknown' else t.status end,
           reason = case when t.status = 'dispatching' then 'the worker did not come back: it may have been sent' else t.reason end,
           outcome_code = case when t.status = 'dispatching' then 'claim_expired' else t.outcome_code end
     where t.id = o.id returning * into o;
    if v_from = 'dispatching' then
      insert into ledger (operation_id, version, at, kind, from_status, to_status, by, reason, outcome_code, fence, attempt)
        values (o.id, o.version, o.updated_at, 'expired', v_from, 'unknown', 'recover', o.reason, 'claim_expired', o.fence, o.attempts);
      if o.doubts = 1 then perform acuse.tell_host(o); end if;
      -- A probe that kills its worker, or whose provider keeps it beyond its claim, has not found the provider well.
      if exists (select 1 from account a where (a.provider, a.account) = (o.provider, o.account)
                    and (a.probe_id, a.probe_fence) = (o.id, o.fence)) then
        perform acuse.account_told(o, o.fence, o.updated_at, 'down');
      end if;
    end if;
    insert into outbox_message (queue, tenant, operation_id, available_at)
      values (acuse.queue_of(o.provider, o.status), o.tenant, o.id, clock_timestamp());
    return query select o.id, v_from;
  end loop;
end $$;

create function acuse.hand_over_due(p_limit int, p_before timestamptz default null) returns int language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare v_count int;
begin
  with o as materialized (
    select id, provider from operation where due_at is not null and due_at <= coalesce(p_before, clock_timestamp()) and claim_until is null
     order by due_at limit p_limit for no key update skip locked),
  u as (update operation t set due_at = null, waiting = null, handed_at = clock_timestamp(), version = t.version + 1,
               updated_at = clock_timestamp()
          from o where t.id = o.id returning t.id, t.provider, t.status, t.tenant)
  insert into outbox_message (queue, tenant, operation_id, available_at)
    select acuse.queue_of(provider, status), tenant, id, clock_timestamp() from u;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- Waiting operations that wait for nothing any more: the wake-up met a claim and was lost, or a dependency was settled by evidence.
-- Of so many that wait, one page is judged at a time, since each takes several look-ups; go on behind last_seq.
create function acuse.hand_over_free(p_limit int, p_older_than interval, p_after bigint default 0)
  returns table (looked_at int, handed_over int, last_seq bigint) language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  with page as materialized (
    select id, seq from operation where waiting is not null and seq > p_after and updated_at < clock_timestamp() - p_older_than
     order by seq limit p_limit),
  o as materialized (
    select o.id from page join operation o on o.id = page.id where o.waiting is not null
       and (coalesce(acuse.turn(o), 'free') in ('free', 'dependency_rejected', 'dependency_missing')
            or acuse.standing(o, clock_timestamp()) is not null)
       -- Whoever decides wakes what waits for an approval, and its due_at does when nobody decides.
       and (o.waiting <> 'approval' or acuse.standing(o, clock_timestamp()) is distinct from 'approval_pending')
     for no key update of o skip locked),
  u as (update operation t set waiting = null, due_at = null, handed_at = clock_timestamp(), version = t.version + 1,
               updated_at = clock_timestamp()
          from o where t.id = o.id returning t.id, t.provider, t.status, t.tenant),
  m as (insert into outbox_message (queue, tenant, operation_id, available_at)
        select acuse.queue_of(provider, status), tenant, id, clock_timestamp() from u returning 1)
  select (select count(*) from page)::int, (select count(*) from m)::int, (select max(seq) from page);
$$;

-- Handed to the broker long ago and not in the outbox. Ask the broker AFTER this read, never before: the other way round every
-- message that was pushed in between looks lost. Read by pages: behind a slow provider the oldest are many and not lost.
create function acuse.lost_candidates(p_older_than interval, p_limit int, p_after timestamptz default null, p_after_id uuid default null)
  returns table (id uuid, version bigint, queue text, handed_at timestamptz)
  language sql volatile set search_path = acuse, pg_catalog, pg_temp as $$
  select o.id, o.version, acuse.queue_of(o.provider, o.status), o.handed_at from operation o
   where o.handed_at is not null and o.handed_at < clock_timestamp() - p_older_than
     and o.handed_at >= coalesce(p_after, '-infinity') and (p_after is null or (o.handed_at, o.id) > (p_after, p_after_id))
     and not exists (select 1 from outbox_message m where m.operation_id = o.id)
   order by o.handed_at, o.id limit p_limit;
$$;

create function acuse.hand_over_lost(p_ids uuid[], p_versions bigint[]) returns int language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare v_count int;
begin
  with u as (
    update operation t set handed_at = clock_timestamp(), version = t.version + 1, updated_at = clock_timestamp()
      from (select x.id, x.v from unnest(p_ids, p_versions) x(id, v) order by x.id) x
     where t.id = x.id and t.version = x.v and t.handed_at is not null
       and not exists (select 1 from outbox_message m where m.operation_id = t.id)
    returning t.id, t.provider, t.status, t.tenant)
  insert into outbox_message (queue, tenant, operation_id, available_at)
    select acuse.queue_of(provider, status), tenant, id, clock_timestamp() from u;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
