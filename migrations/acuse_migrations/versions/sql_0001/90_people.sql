-- What hosts and people may do. Every act of a person is a compare-and-set on the record version, with a name and a reason.

create function acuse.cancel(p_tenant text, p_id uuid, p_by text, p_reason text) returns text language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare o operation%rowtype; v_now timestamptz;
begin
  select * into o from operation where id = p_id and tenant = p_tenant for no key update;
  if not found then return null; end if;
  if o.status <> 'prepared' then return o.status; end if;   -- what is in the air may still take effect
  v_now := clock_timestamp();
  update operation t set status = 'rejected', outcome_code = 'cancelled', reason = p_reason, version = t.version + 1, updated_at = v_now,
         settled_at = v_now, handed_at = null, claim_until = null, due_at = null, waiting = null, held = null
   where t.id = p_id returning * into o;
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, actor, reason, outcome_code)
    values (p_id, o.version, v_now, 'cancelled', 'prepared', 'rejected', 'host', p_by, p_reason, 'cancelled');
  perform acuse.finished(o);
  return 'cancelled';
end $$;

create function acuse.in_the_air(p_tenant text, p_workflow text, p_flow_version text, p_approval uuid) returns setof uuid
  language sql volatile set search_path = acuse, pg_catalog, pg_temp as $$
  select id from operation where tenant = p_tenant and status in ('dispatching', 'unknown')
     and (p_workflow is null or workflow_id = p_workflow) and (p_flow_version is null or flow_version = p_flow_version)
     and (p_approval is null or approval_id = p_approval) order by seq;
$$;

create function acuse.cancel_workflow(p_tenant text, p_workflow text, p_by text, p_reason text) returns setof uuid
  language plpgsql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(acuse.workflow_lock(p_tenant, p_workflow));
  insert into workflow values (p_tenant, p_workflow, clock_timestamp(), p_by, p_reason) on conflict do nothing;
  -- The next worker that takes one of these finds the workflow cancelled and rejects it. No operation is locked here.
  insert into outbox_message (queue, tenant, operation_id, available_at)
    select acuse.queue_of(provider, 'prepared'), tenant, id, clock_timestamp() from operation where (tenant, workflow_id) = (p_tenant, p_workflow) and status = 'prepared';
  return query select * from acuse.in_the_air(p_tenant, p_workflow, null, null);
end $$;

create function acuse.withdraw_flow_version(p_tenant text, p_flow_version text, p_by text, p_reason text) returns setof uuid
  language plpgsql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(acuse.workflow_lock(p_tenant, 'version ' || p_flow_version));
  insert into flow_version values (p_tenant, p_flow_version, clock_timestamp(), p_by, p_reason) on conflict do nothing;
  return query select * from acuse.in_the_air(p_tenant, null, p_flow_version, null);
end $$;

create function acuse.operate(p_id uuid, p_version bigint, p_act text, p_actor text, p_reason text, p_result_id text)
  returns table (outcome text, version bigint, status text) language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare o operation%rowtype; v_now timestamptz; v_from text; v_to text;
begin
  if coalesce(btrim(p_actor), '') = '' or coalesce(btrim(p_reason), '') = '' then
    raise exception 'operate: actor and reason are wanted, for the record' using errcode = 'invalid_parameter_value';
  end if;
  select * into o from operation where id = p_id for no key update;
  if not found then return; end if;
  if o.version <> p_version then return query select 'changed', o.version, o.status; return; end if;
  v_now := clock_timestamp(); v_from := o.status;
  v_to := case
    when p_act = 'confirm' and o.status = 'unknown' and p_result_id is not null then 'confirmed'
    when p_act = 'reject' and o.status in ('unknown', 'prepared') then 'rejected'
    -- Of a chain one at a time is in doubt, also by suspicion: the others wait behind it.
    when p_act = 'suspect' and o.status = 'prepared' and not exists (
      select 1 from operation b where (b.tenant, b.provider, b.ordering_key) = (o.tenant, o.provider, o.ordering_key)
         and b.ordering_key is not null and b.status in ('dispatching', 'unknown')) then 'unknown'
    when p_act in ('recheck', 'accept_risk') and o.status = 'unknown' then 'unknown'
    when p_act = 'resume' and o.status = 'prepared' then 'prepared'
  end;
  if v_to is null then return query select 'not_possible', o.version, o.status; return; end if;
  insert into evidence (operation_id, source, source_id, attempt, finding, detail, started_at, recorded_at, version)
    values (p_id, 'operator', p_act || '-' || o.version, o.attempts, case when p_act = 'confirm' then 'found'
            when p_act = 'reject' and v_from = 'unknown' then 'refused_before' else 'unavailable' end,
            jsonb_strip_nulls(jsonb_build_object('act', p_act, 'actor', p_actor, 'reason', p_reason, 'result_id', p_result_id)),
            v_now, v_now, o.version + 1);
  update operation t set status = v_to, version = t.version + 1, updated_at = v_now, handovers = 0,
         outcome_code = case when v_to in ('confirmed', 'rejected') then 'operator' else t.outcome_code end,
         reason = case when v_to is distinct from v_from then p_reason else t.reason end,
         doubts = case when v_to in ('confirmed', 'rejected') then 0 when p_act = 'suspect' then 1 else t.doubts end,
         first_sent_at = case when p_act = 'suspect' then v_now else t.first_sent_at end,
         risk_accepted_at = case when p_act = 'accept_risk' then v_now else t.risk_accepted_at end,
         result_id = coalesce(p_result_id, t.result_id), evidence_at = case when v_to = 'confirmed' then v_now else t.evidence_at end,
         settled_at = case when v_to in ('confirmed', 'rejected') then v_now end,
         held = null, handed_at = null, waiting = null, claim_until = null, put_off = null,
         due_at = case when v_to in ('confirmed', 'rejected') then null else v_now end
   where t.id = p_id returning * into o;
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, actor, reason, outcome_code)
    values (p_id, o.version, v_now, p_act, v_from, v_to, 'operator', p_actor, p_reason, o.outcome_code);
  if v_to in ('confirmed', 'rejected') then perform acuse.finished(o); end if;
  return query select 'done', o.version, o.status;
end $$;
