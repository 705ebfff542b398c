-- settle: what came back is saved at once, under the row lock. A worker that lost its claim meanwhile changes no state with its
-- token, but its receipt is never lost: it becomes evidence, resolves its own attempt's doubt, and may settle the operation.

create function acuse.settle(p_id uuid, p_fence bigint, p_attempt int, p_outcome text, p_status text, p_doubts int, p_covers_key boolean,
                             p_code text, p_reason text, p_review boolean, p_receipt jsonb, p_due interval, p_pause interval,
                             p_health text default null)
  returns text language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare
  o operation%rowtype; v_now timestamptz; v_live boolean; v_status text; v_doubts int; v_was_doubtful boolean; v_from text;
  v_sent_at timestamptz;
begin
  set local synchronous_commit = on;
  set local idle_in_transaction_session_timeout = '60 s';   -- as in claim
  select * into o from operation where id = p_id for no key update;
  if not found then return 'gone'; end if;
  if exists (select 1 from ledger where operation_id = p_id and fence = p_fence and kind in ('settled', 'late')) then
    return 'already';   -- the reply to an earlier COMMIT was lost
  end if;
  v_now := clock_timestamp();
  v_live := o.fence = p_fence and o.status = 'dispatching';
  v_from := o.status;
  select doubtful, dispatched_at into v_was_doubtful, v_sent_at from attempt where operation_id = p_id and number = p_attempt and fence = p_fence;
  if not found then
    raise exception 'settle: attempt % of % was never dispatched with fence %', p_attempt, p_id, p_fence;
  end if;
  update attempt set settled_at = v_now, outcome = p_outcome, reason = p_reason, needs_review = p_review, late = not v_live,
         doubtful = doubtful and p_outcome = 'ambiguous', provider_request_id = p_receipt->>'provider_request_id',
         result_id = p_receipt->>'result_id', result_version = p_receipt->>'result_version'
   where operation_id = p_id and number = p_attempt;
  -- An outcome speaks for its own attempt, also when it comes late.
  v_doubts := o.doubts - (v_was_doubtful and p_outcome <> 'ambiguous' and o.doubts > 0)::int;
  if v_live then
    -- What the worker concluded holds for the doubts that it saw when it dispatched. An older attempt's outcome may have come in
    -- late since then, so the doubts are counted here, under the row lock.
    v_status := case when p_status in ('confirmed', 'rejected') or v_doubts = p_doubts then p_status
                     when v_doubts > 0 then 'unknown' when p_outcome = 'refused' then 'rejected' else 'prepared' end;
  else
    v_status := case
      when p_outcome = 'accepted' and o.status in ('prepared', 'dispatching', 'unknown') then 'confirmed'
      when p_outcome = 'refused' and o.status = 'unknown' and (p_covers_key or v_doubts = 0) then 'rejected'
      when p_outcome = 'not_sent' and o.status = 'unknown' and v_doubts = 0 then 'prepared'
      else o.status end;
    if v_status = 'dispatching' then v_doubts := greatest(v_doubts, 1); end if;
    if v_status = 'unknown' and v_doubts = 0 then v_doubts := 1; end if;
    if p_outcome = 'accepted' then
      insert into evidence (operation_id, source, source_id, attempt, finding, detail, started_at, recorded_at, version)
        values (p_id, 'receipt', 'fence-' || p_fence, p_attempt, 'found', p_receipt, v_now, v_now, o.version + 1) on conflict do nothing;
    end if;
    if p_outcome = 'accepted' and (o.status = 'rejected' or o.status = 'confirmed' and o.result_id <> p_receipt->>'result_id') then
      perform acuse.open_incident(p_id, case o.status when 'rejected' then 'effect_after_rejection' else 'duplicate_effect' end,
        jsonb_build_object('result_id', p_receipt->>'result_id', 'attempt', p_attempt));
    end if;
  end if;
  if v_status in ('confirmed', 'rejected') and o.status not in ('confirmed', 'rejected') then
    v_doubts := 0;
  end if;
  update operation t set version = t.version + 1, updated_at = v_now, status = v_status, doubts = v_doubts,
         first_sent_at = case when v_status = 'prepared' then null else t.first_sent_at end,
         retry_until = case when v_status = 'prepared' then null else t.retry_until end,
         outcome_code = case when v_status is distinct from t.status then p_code else t.outcome_code end,
         reason = case when v_status is distinct from t.status then p_reason else t.reason end,
         provider_request_id = coalesce(p_receipt->>'provider_request_id', t.provider_request_id),
         result_id = case when v_status = 'confirmed' then coalesce(t.result_id, p_receipt->>'result_id') else t.result_id end,
         result_version = case when v_status = 'confirmed' then coalesce(t.result_version, p_receipt->>'result_version') else t.result_version end,
         evidence_at = case when v_status = 'confirmed' then coalesce(t.evidence_at, v_now) else t.evidence_at end,
         settled_at = case when v_status in ('confirmed', 'rejected') then coalesce(t.settled_at, v_now) end,
         claim_until = case when v_live or v_status in ('confirmed', 'rejected') then null else t.claim_until end,
         handed_at = case when v_status in ('confirmed', 'rejected') then null else t.handed_at end,
         waiting = case when v_status in ('confirmed', 'rejected') then null else t.waiting end,
         held = case when v_status not in ('confirmed', 'rejected') and v_live then t.held end,
         due_at = case when v_status in ('confirmed', 'rejected') then null
                       when v_live then v_now + p_due
                       when t.status in ('prepared', 'unknown') and t.claim_until is null then v_now   -- news: decide again
                       else t.due_at end
   where t.id = p_id returning * into o;
  insert into ledger (operation_id, version, at, kind, from_status, to_status, by, reason, outcome_code, fence, attempt)
    values (p_id, o.version, v_now, case when v_live then 'settled' else 'late' end, v_from, o.status,
            case when v_live then 'worker' when o.status = 'prepared' then 'recover' else 'evidence' end, p_reason, p_code, p_fence, p_attempt);
  if o.status is distinct from v_from and o.status in ('confirmed', 'rejected') then
    perform acuse.finished(o);
  elsif o.status = 'unknown' and v_from = 'dispatching' and p_outcome = 'ambiguous' and o.doubts = 1 then
    perform acuse.tell_host(o);   -- the doubt, in the host's own code
  end if;
  perform acuse.account_told(o, p_fence, v_sent_at, p_health);
  if p_pause is not null then
    perform acuse.pause_account(o.provider, o.account, v_now + p_pause, 'acuse', p_reason);
  end if;
  return case when v_live then 'settled' else 'late' end;
end $$;

create function acuse.pause_account(p_provider text, p_account text, p_until timestamptz, p_by text, p_reason text) returns void
  language sql volatile set search_path = acuse, pg_catalog, pg_temp as $$
  insert into account (provider, account, paused_at, paused_until, paused_by, pause_reason, updated_at)
    values (p_provider, p_account, clock_timestamp(), p_until, p_by, p_reason, clock_timestamp())
  on conflict (provider, account) do update set
    paused_at = coalesce(account.paused_at, excluded.paused_at), paused_by = excluded.paused_by,
    -- Of several answers that ask for patience, the most patient counts.
    paused_until = case when account.paused_by = 'acuse' and excluded.paused_by = 'acuse'
                        then greatest(account.paused_until, excluded.paused_until) else excluded.paused_until end,
    pause_reason = excluded.pause_reason, updated_at = clock_timestamp()
    -- What a person paused, no automatic pause shortens, prolongs or explains away while it lasts.
    where excluded.paused_by <> 'acuse' or account.paused_at is null or account.paused_by = 'acuse'
       or account.paused_until <= clock_timestamp();
$$;

create function acuse.resume_account(p_provider text, p_account text) returns boolean
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
begin
  -- A breaker is not closed by a person's word, but its next probe need not wait.
  update account set paused_at = null, paused_until = null, paused_by = null, pause_reason = null, updated_at = clock_timestamp(),
         open_until = case when opened_at is not null then least(open_until, clock_timestamp()) end
   where (provider, account) = (p_provider, p_account) and (paused_at is not null or open_until > clock_timestamp());
  return found;
end $$;
