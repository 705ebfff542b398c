-- dispatch: the guarded step to dispatching, written last before the first byte may leave.
--
-- Locks first, in one order for everybody: operation, approval, workflow, account. Only then the clock is read and everything
-- is judged, since now(), statement_timestamp() and a clock_timestamp() beside the lock are older than a wait for it, and an
-- approval looked at in a subquery was revoked while dispatch waited, and dispatched anyway. Every statement in here has its
-- own snapshot (our connections are READ COMMITTED), so what was committed during a wait is seen.

create function acuse.workflow_lock(p_tenant text, p_workflow text) returns bigint language sql immutable
  set search_path = pg_catalog, pg_temp
  return hashtextextended('acuse.workflow ' || length(p_tenant) || ' ' || p_tenant || ' ' || p_workflow, 0);
comment on function acuse.workflow_lock(text, text) is
  'A workflow has a row only once it is cancelled, so its standing is locked by this key: dispatch shares it, cancelling takes it.';

create function acuse.standing(o acuse.operation, p_now timestamptz) returns text language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare v_approval text := acuse.approval_gate(o, p_now);
begin
  if v_approval <> 'approval_pending' then return v_approval; end if;
  if o.workflow_id is not null and exists (select 1 from workflow w where (w.tenant, w.workflow_id) = (o.tenant, o.workflow_id)) then
    return 'workflow_cancelled';
  end if;
  if o.flow_version is not null and exists (select 1 from flow_version f where (f.tenant, f.flow_version) = (o.tenant, o.flow_version)) then
    return 'flow_withdrawn';
  end if;
  if o.not_after <= p_now then return 'expired'; end if;
  return v_approval;   -- last: what cannot be sent any more waits for nobody
end $$;
comment on function acuse.standing(acuse.operation, timestamptz) is 'Why an operation may not be dispatched any more; null if it may.';

create function acuse.turn(o acuse.operation) returns text language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
begin
  if exists (select 1 from dependency d left join operation n on n.id = d.needs and n.tenant = o.tenant
              where d.operation_id = o.id and n.id is null) then return 'dependency_missing'; end if;
  if exists (select 1 from dependency d join operation n on n.id = d.needs
              where d.operation_id = o.id and n.status = 'rejected') then return 'dependency_rejected'; end if;
  if exists (select 1 from dependency d join operation n on n.id = d.needs
              where d.operation_id = o.id and n.status <> 'confirmed') then return 'dependency_waiting'; end if;
  -- First dispatches only: an unknown head must be able to go again although a lower number committed late behind it.
  if o.ordering_key is not null and exists (
       select 1 from operation b where (b.tenant, b.provider, b.ordering_key) = (o.tenant, o.provider, o.ordering_key)
          and b.ordering_key is not null and b.status in ('dispatching', 'unknown')
       union all
       select 1 from operation b where (b.tenant, b.provider, b.ordering_key) = (o.tenant, o.provider, o.ordering_key)
          and b.ordering_key is not null and b.status = 'prepared' and b.seq < o.seq) then
    return 'ordering_waiting';
  end if;
  return null;
end $$;
comment on function acuse.turn(acuse.operation) is 'Why it is not a prepared operation''s turn; null if it is.';

create type acuse.dispatched as (
  gate text, attempt int, earlier_doubts int, dispatched_at timestamptz, version bigint, status text
);

create function acuse.not_dispatched(o acuse.operation, p_gate text, p_due_at timestamptz) returns acuse.dispatched
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare
  v_now timestamptz := clock_timestamp(); v_code text;
  v_put_off text := case when p_gate in ('account_paused', 'breaker_open', 'account_busy') then p_gate end;
begin
  if o.status = 'unknown' then
    -- In doubt already: a gate never settles a doubt. Decide again, with the standing as it is now.
    update operation set claim_until = null, version = version + 1, updated_at = v_now, handovers = 0, put_off = v_put_off,
           due_at = case when p_gate in ('stale_verdict', 'window_closed', 'claim_too_short') then v_now
                         -- It is looked up before it comes here again, at a provider that is away.
                         when p_gate = 'breaker_open' then greatest(p_due_at, v_now + interval '30 s')
                         else coalesce(p_due_at, v_now + interval '30 s') end
     where id = o.id returning * into o;
    return row(p_gate, null, null, null, o.version, o.status)::dispatched;
  end if;
  v_code := case when p_gate = 'approval_pending' then null when p_gate like 'approval%' then 'approval_gone' when p_gate in ('workflow_cancelled', 'flow_withdrawn') then 'cancelled'
                 when p_gate in ('dependency_rejected', 'expired') then p_gate end;
  if v_code is not null then
    update operation set status = 'rejected', outcome_code = v_code, reason = p_gate, claim_until = null, version = version + 1,
           updated_at = v_now, settled_at = v_now where id = o.id returning * into o;
    insert into ledger (operation_id, version, at, kind, from_status, to_status, by, reason, outcome_code, fence)
      values (o.id, o.version, v_now, 'gated', 'prepared', 'rejected', 'worker', p_gate, v_code, o.fence);
    perform acuse.finished(o);
  else
    update operation set claim_until = null, version = version + 1, updated_at = v_now, handovers = 0, put_off = v_put_off,
           waiting = case p_gate when 'dependency_waiting' then 'dependency' when 'ordering_waiting' then 'ordering'
                               when 'approval_pending' then 'approval' end,
           held = case p_gate when 'dependency_missing' then 'what it depends on does not exist in this tenant' end,
           due_at = case when v_put_off is not null then coalesce(p_due_at, v_now + interval '30 s')
                         when p_gate = 'approval_pending' then acuse.approval_awaited_until(o)
                         when p_gate = 'claim_too_short' then v_now
                         when p_gate = 'found_before' then v_now + interval '30 s'   -- whoever asked decides at once
                         when p_gate = 'stale_verdict' then v_now end   -- a late answer cleared the doubt under the verdict
     where id = o.id returning * into o;
  end if;
  return row(p_gate, null, null, null, o.version, o.status)::dispatched;
end $$;

create function acuse.dispatch(p_id uuid, p_fence bigint, p_version bigint, p_basis text, p_deadline interval, p_window interval,
                               p_contract text, p_key text, p_pin jsonb)
  returns acuse.dispatched language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare
  o operation%rowtype; v_now timestamptz; v_gate text; v_account account%rowtype; v_writes boolean; v_due timestamptz;
  v_first timestamptz;
begin
  -- A dispatch that is not durable could be forgotten by a crash of the server after the bytes left.
  set local synchronous_commit = on;
  set local idle_in_transaction_session_timeout = '60 s';   -- as in claim
  select * into o from operation where id = p_id for no key update;
  if not found or o.fence <> p_fence then
    return row('fenced', null, null, null, o.version, o.status)::dispatched;
  end if;
  if o.status not in ('prepared', 'unknown') or o.claim_until is null then
    return row('moved', null, null, null, o.version, o.status)::dispatched;
  end if;
  if o.approval_id is not null then
    perform 1 from approval where id = o.approval_id for no key update;
  end if;
  if o.workflow_id is not null then
    perform pg_advisory_xact_lock_shared(acuse.workflow_lock(o.tenant, o.workflow_id));
  end if;
  if o.flow_version is not null then
    perform pg_advisory_xact_lock_shared(acuse.workflow_lock(o.tenant, 'version ' || o.flow_version));
  end if;
  -- Shared, but written by whoever has to take a probe or a place: two that share a row could never both come to write it.
  v_writes := exists (select 1 from account a where (a.provider, a.account) = (o.provider, o.account)
                         and num_nonnulls(a.opened_at, a.max_concurrent, a.max_per_second) > 0);
  if v_writes then
    perform 1 from account where (provider, account) = (o.provider, o.account) for no key update;
  end if;
  select * into v_account from account where (provider, account) = (o.provider, o.account) for share;

  v_now := clock_timestamp();
  v_gate := case
    -- It was sent before, and an absence cleared it, and then the provider told of it: the absence was wrong.
    when o.status = 'prepared' and o.attempts > 0 and exists (
           select 1 from evidence e where e.operation_id = o.id and e.finding = 'found' and e.source <> 'operator'
              and (e.detail->>'content_matches')::boolean is distinct from false) then 'found_before'
    when o.claim_until < v_now + p_deadline then 'claim_too_short'
    when o.status = 'unknown' and o.version <> p_version then 'stale_verdict'
    when o.status = 'unknown' and p_basis = 'same_key' and (o.retry_until is null or o.retry_until < v_now) then 'window_closed'
    when o.status = 'unknown' and p_basis = 'accepted_risk' and o.risk_accepted_at is null then 'stale_verdict'
    when (o.status = 'prepared') <> (p_basis = 'first') then 'stale_verdict'
  end;
  v_gate := coalesce(v_gate, acuse.standing(o, v_now));
  if v_gate is null and o.status = 'prepared' then
    v_gate := acuse.turn(o);
  end if;
  if v_gate is null and num_nonnulls(v_account.paused_at, v_account.opened_at, v_account.max_concurrent, v_account.max_per_second) > 0 then
    select g.gate, g.due_at into v_gate, v_due from acuse.account_gate(o, v_account, v_writes, v_now) g;
  end if;
  if v_gate is not null then
    return acuse.not_dispatched(o, v_gate, v_due);
  end if;

  if o.approval_id is not null and not o.charged then
    perform acuse.charge_approval(o);
  end if;
  v_first := coalesce(o.first_sent_at, v_now);
  update operation set status = 'dispatching', charged = charged or approval_id is not null, version = version + 1, attempts = attempts + 1,
         doubts = doubts + 1, first_sent_at = v_first, retry_until = coalesce(retry_until, v_first + p_window), risk_accepted_at = null,
         handovers = 0, put_off = null, updated_at = v_now
   where id = o.id returning * into o;
  insert into attempt (operation_id, number, fence, basis, contract_version, account, provider_key, pin, dispatched_at, deadline)
    values (o.id, o.attempts, p_fence, p_basis, p_contract, o.account, p_key, p_pin, v_now, p_deadline);
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, reason, fence, attempt)
    values (o.id, o.version, v_now, 'dispatched', case when p_basis = 'first' then 'prepared' else 'unknown' end, 'dispatching', 'worker',
            p_basis, p_fence, o.attempts);
  return row('open', o.attempts, o.doubts - 1, v_now, o.version, o.status)::dispatched;
end $$;
