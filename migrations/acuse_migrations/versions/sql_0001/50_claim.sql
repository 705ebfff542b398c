-- claim: take the right to work on operations for a while. The state does not change; the fencing token rises.

create function acuse.claim(p_ids uuid[], p_lease interval, p_most_handovers int default 20, p_token uuid default null)
  returns table (id uuid, fence bigint, version bigint, status text, tenant text, workflow_id text, call_id text, action text, provider text,
                 account text, target text, digest bytea, body bytea, trace_context text, attempts int, pin jsonb, doubts int,
                 handovers int, account_rests boolean)
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  set local synchronous_commit = on;
  -- A worker that vanishes between a statement and its COMMIT would keep the rows locked until the server misses it.
  set local idle_in_transaction_session_timeout = '60 s';
  return query
  with o as materialized (
    select o.id from operation o
     where o.id = any(p_ids) and o.status in ('prepared', 'unknown') and o.held is null
       -- A worker that lost the reply to its COMMIT asks with the same token, and takes its own claim again.
       and (o.claim_until is null or o.claim_until < clock_timestamp() or o.claim_token = p_token)
       -- What waits for an approval is due when that expires; whoever decides before wakes it.
       and (o.due_at is null or o.due_at <= clock_timestamp() or o.waiting = 'approval')
     order by o.id for no key update skip locked),   -- locked by another: that one is working on it
  c as (
    update operation t
       set fence = t.fence + 1, version = t.version + 1, handovers = t.handovers + 1, updated_at = clock_timestamp(),
           claim_until = case when t.handovers < p_most_handovers then clock_timestamp() + p_lease end,
           claim_token = p_token, handed_at = null, due_at = null, waiting = null,
           put_off = case when t.put_off = 'account_busy' then t.put_off end,   -- its place is kept until it comes to dispatch
           -- Poison: it was taken so often without getting anywhere that it may be what kills the workers.
           held = case when t.handovers >= p_most_handovers
                       then format('parked: handed over %s times without progress', t.handovers) end
      from o where t.id = o.id
    returning t.*)
  select c.id, c.fence, c.version, c.status, c.tenant, c.workflow_id, c.call_id, c.action, c.provider, c.account, c.target, c.digest,
         p.body, c.trace_context, c.attempts,
         (select a.pin from attempt a where a.operation_id = c.id order by a.number desc limit 1), c.doubts, c.handovers,
         exists (select 1 from account a where (a.provider, a.account) = (c.provider, c.account)
                    and (acuse.account_rest(a, clock_timestamp())).gate is not null)
    from c left join payload p on p.id = c.id where c.held is null;
end $$;

-- defer: give a claim back before anything left, and say when to come again, or what it waits for, or why only a person can go on.
create function acuse.defer(p_id uuid, p_fence bigint, p_due interval, p_waiting text, p_held text, p_progress boolean)
  returns boolean language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
begin
  set local idle_in_transaction_session_timeout = '60 s';   -- as in claim
  update operation set claim_until = null, version = version + 1, updated_at = clock_timestamp(),
         due_at = case when p_due is not null then clock_timestamp() + p_due end, waiting = p_waiting, held = p_held, put_off = null,
         handovers = case when p_progress then 0 else handovers end
   where id = p_id and fence = p_fence and status in ('prepared', 'unknown') and claim_until is not null;
  return found;
end $$;

-- release: wake what waits for a settled operation, and tell the host. It locks no other operation: locking the next of a
-- chain deadlocked in three of three runs. A wake-up that is lost in a race is found by the recover loop.
create function acuse.wake_next(p_id uuid) returns int language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare v_count int;
begin
  insert into outbox_message (queue, tenant, operation_id, available_at)
  select acuse.queue_of(n.provider, 'prepared'), n.tenant, n.id, clock_timestamp() from (
    select n.id, n.provider, n.tenant from dependency d join operation n on n.id = d.operation_id
     where d.needs = p_id and n.status = 'prepared' and n.held is null
    union
    (select n.id, n.provider, n.tenant from operation o join operation n on (n.tenant, n.provider, n.ordering_key) = (o.tenant, o.provider, o.ordering_key)
      where o.id = p_id and o.ordering_key is not null and n.status = 'prepared' and n.ordering_key is not null
      order by n.seq limit 1)) n;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

create function acuse.tell_host(o acuse.operation) returns void language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  insert into outbox_message (queue, tenant, message, available_at)
  select split_part(o.on_settled, '/', 1), o.tenant,
         jsonb_build_object('id', 'op_' || replace(o.id::text, '-', '') || '-' || o.version, 'actor', split_part(o.on_settled, '/', 2),
           'args', '[]'::jsonb, 'options', '{}'::jsonb, 'kwargs', jsonb_build_object(
             'operation_id', 'op_' || replace(o.id::text, '-', ''), 'state', o.status, 'outcome_code', o.outcome_code,
             'tenant', o.tenant, 'workflow', o.workflow_id, 'call', o.call_id, 'action', o.action, 'target', o.target,
             'result_id', o.result_id, 'result_version', o.result_version, 'version', o.version)),
         clock_timestamp()
   where o.on_settled is not null;
$$;

create function acuse.finished(o acuse.operation) returns void language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
begin
  perform acuse.wake_next(o.id);
  perform acuse.tell_host(o);
end $$;

create function acuse.open_incident(p_id uuid, p_kind text, p_detail jsonb) returns void language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  insert into incident (id, operation_id, kind, detail, opened_at)
    values (acuse.uuid7(), p_id, p_kind, coalesce(p_detail, '{}'), clock_timestamp()) on conflict do nothing;
$$;
