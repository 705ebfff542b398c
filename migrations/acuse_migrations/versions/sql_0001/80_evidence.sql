-- Evidence is written first, in a transaction of its own, and raises the record version; the verdict comes after, by that version.

create function acuse.record_evidence(p_id uuid, p_source text, p_source_id text, p_attempt int, p_finding text, p_detail jsonb,
                                      p_started_at timestamptz)
  returns table (fresh boolean, version bigint, status text)
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  o operation%rowtype; v_now timestamptz; v_fresh boolean; v_news boolean; v_constraint text;
begin
  set local synchronous_commit = on;
  set local idle_in_transaction_session_timeout = '60 s';   -- as in claim
  select * into o from operation where id = p_id for no key update;
  if not found then return; end if;
  v_now := clock_timestamp();
  begin
    insert into evidence (operation_id, source, source_id, attempt, finding, detail, started_at, recorded_at, version)
      values (p_id, p_source, p_source_id, p_attempt, p_finding, p_detail, p_started_at, v_now, o.version + 1)
      on conflict do nothing;
    v_fresh := found;
  exception when check_violation then
    get stacked diagnostics v_constraint = constraint_name;
    if v_constraint <> '' then raise; end if;
    -- No partition for it: the history of its month was dropped, so it is settled. Who comes so late is told that it is known,
    -- or a webhook would come again for ever; a person is told what it said.
    perform acuse.open_incident(p_id, 'late_evidence', jsonb_build_object('source', p_source, 'source_id', p_source_id,
      'finding', p_finding, 'attempt', p_attempt, 'state', o.status));
    return query select false, o.version, o.status;
    return;
  end;
  if not v_fresh then
    return query select false, o.version, o.status;   -- the same source said the same thing before
    return;
  end if;
  -- What binds is news, also for what waits for a person or for a later look: it is decided again. Whoever holds a claim decides
  -- anyway, by the version.
  v_news := p_finding in ('found', 'refused_before') and o.claim_until is null
            and (o.status = 'unknown' or o.status = 'prepared' and o.attempts > 0);
  update operation t set version = t.version + 1, updated_at = v_now,
         due_at = case when v_news then v_now else t.due_at end, held = case when not v_news then t.held end,
         handovers = case when v_news then 0 else t.handovers end
   where t.id = p_id returning * into o;
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, actor, reason, attempt)
    values (p_id, o.version, v_now, 'evidence', o.status, o.status, 'evidence', p_source, p_finding, p_attempt);
  return query select true, o.version, o.status;
end $$;

-- view: everything that a decision needs, read in one statement, with the clock.
create function acuse.view(p_id uuid) returns table (operation jsonb, attempts jsonb, findings jsonb, standing text, at timestamptz)
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare o operation%rowtype;
begin
  select * into o from operation where id = p_id;
  if not found then return; end if;
  return query select
    jsonb_build_object('id', o.id, 'status', o.status, 'doubts', o.doubts, 'version', o.version, 'fence', o.fence,
      'first_sent_at', o.first_sent_at,
      'has_provider_id', o.result_id is not null or o.provider_request_id is not null, 'risk_accepted', o.risk_accepted_at is not null),
    (select coalesce(jsonb_agg(jsonb_build_object('number', a.number, 'dispatched_at', a.dispatched_at, 'doubtful', a.doubtful,
        'review', a.needs_review) order by a.number), '[]') from attempt a where a.operation_id = p_id),
    (select coalesce(jsonb_agg(jsonb_build_object('finding', e.finding, 'detail', e.detail, 'started_at', e.started_at, 'attempt', e.attempt)
        order by e.started_at, e.version), '[]') from evidence e where e.operation_id = p_id and e.source <> 'operator'),
    acuse.standing(o, clock_timestamp()), clock_timestamp();
end $$;

create function acuse.apply_verdict(p_id uuid, p_version bigint, p_verdict text, p_reason text, p_code text, p_result_id text,
                                    p_result_version text, p_due_at timestamptz, p_incident text, p_incident_detail jsonb)
  returns bigint language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare
  o operation%rowtype; v_now timestamptz; v_from text; v_to text;
begin
  set local synchronous_commit = on;
  set local idle_in_transaction_session_timeout = '60 s';   -- as in claim
  select * into o from operation where id = p_id for no key update;
  if not found or o.version <> p_version then return null; end if;   -- judged something that has changed: decide again
  if not (o.status = 'unknown' or p_verdict = 'confirm' and o.status in ('prepared', 'dispatching')) then return null; end if;
  v_now := clock_timestamp();
  v_from := o.status;
  v_to := case p_verdict when 'confirm' then 'confirmed' when 'reject' then 'rejected' when 'requeue' then 'prepared'
                         when 'check' then o.status when 'review' then o.status end;
  if v_to is null then raise exception 'apply_verdict: % is no verdict that is applied here', p_verdict; end if;
  update operation t set version = t.version + 1, updated_at = v_now, status = v_to, claim_until = null, handed_at = null, waiting = null,
         put_off = null, doubts = case when v_to in ('confirmed', 'rejected', 'prepared') then 0 else t.doubts end,
         first_sent_at = case when v_to = 'prepared' then null else t.first_sent_at end,
         retry_until = case when v_to = 'prepared' then null else t.retry_until end,
         due_at = case p_verdict when 'check' then coalesce(p_due_at, v_now) when 'requeue' then v_now end,
         held = case when p_verdict = 'review' then p_reason end,
         reason = p_reason, outcome_code = coalesce(p_code, t.outcome_code),
         result_id = coalesce(p_result_id, t.result_id), result_version = coalesce(p_result_version, t.result_version),
         evidence_at = v_now, settled_at = case when v_to in ('confirmed', 'rejected') then v_now end, handovers = 0
   where t.id = p_id returning * into o;
  if p_verdict = 'requeue' then
    update attempt set doubtful = false where operation_id = p_id and doubtful;
  end if;
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, reason, outcome_code)
    values (p_id, o.version, v_now, p_verdict, v_from, v_to, case when p_verdict in ('confirm', 'reject') then 'evidence' else 'recover' end,
            p_reason, p_code);
  if p_incident is not null then
    perform acuse.open_incident(p_id, p_incident, p_incident_detail);
  end if;
  if v_to in ('confirmed', 'rejected') then
    perform acuse.finished(o);
  elsif p_verdict = 'review' then
    perform acuse.tell_host(o);
  end if;
  return o.version;
end $$;
