-- Approvals: asked for, decided by a person, expiring by the clock alone, used up by dispatch. No row is ever moved by time:
-- what an approval is worth is read off its facts at the moment of asking, so that nothing has to sweep and nobody to restart.
--
-- Locks: whoever asks, decides, revokes or supersedes locks the approval's row only, and wakes what waits for it by outbox
-- messages. Dispatch locks the operation, then the approval; an operation locked from here would be the other way round.

create function acuse.approval_state(a acuse.approval, p_now timestamptz) returns text language sql immutable
  set search_path = acuse, pg_catalog, pg_temp
  return case when a.superseded_at is not null then 'superseded' when a.revoked_at is not null then 'revoked'
              when a.decision = 'denied' then 'denied' when a.expires_at <= p_now then 'expired'
              when a.decision is null then 'pending' else 'granted' end;
comment on function acuse.approval_state(acuse.approval, timestamptz) is
  'pending, granted, denied, expired, superseded or revoked, at that time. Who denied is a person: a timeout is expired.';

create function acuse.approval_covers(a acuse.approval, p_action text, p_target text, p_digest bytea, p_effect_key text) returns boolean
  language sql immutable set search_path = acuse, pg_catalog, pg_temp
  return a.action = p_action and (a.effect_key is null or a.effect_key = p_effect_key)
    and case when a.digest is not null then a.target = p_target and a.digest = p_digest
             else (a.target is null or a.target = p_target) and (a.target_prefix is null or starts_with(p_target, a.target_prefix)) end;
comment on function acuse.approval_covers(acuse.approval, text, text, bytea, text) is
  'Exactly the effect that was asked for, of exactly that intent; or one that fits the pattern.';

create function acuse.approval_amount(a acuse.approval, p_body bytea) returns numeric language plpgsql immutable
  set search_path = acuse, pg_catalog, pg_temp as $$
declare v_said text := convert_from(p_body, 'UTF8')::json -> 'payload' ->> a.sum_field;
begin
  -- Below zero it would make room for others. What is no amount is none: it is null, and never 0.
  if v_said ~ '^[0-9]{1,30}(\.[0-9]{1,30})?$' then return v_said::numeric; end if;
  return null;
end $$;

create function acuse.approval_gate(o acuse.operation, p_now timestamptz) returns text language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare a approval%rowtype; v_state text; v_amount numeric;
begin
  if o.approval_id is null then return null; end if;
  select * into a from approval where id = o.approval_id and tenant = o.tenant;
  if not found then return 'approval_missing'; end if;
  if not acuse.approval_covers(a, o.action, o.target, o.digest, o.effect_key) then return 'approval_mismatch'; end if;
  v_state := acuse.approval_state(a, p_now);
  if v_state <> 'granted' then return 'approval_' || v_state; end if;
  if o.charged then return null; end if;
  if a.used >= a.max_uses then return 'approval_used_up'; end if;
  if a.max_sum is not null then
    v_amount := acuse.approval_amount(a, (select body from payload where id = o.id));
    if v_amount is null then return 'approval_mismatch'; end if;
    if a.summed + v_amount > a.max_sum then return 'approval_sum_exceeded'; end if;
  end if;
  return null;
end $$;
comment on function acuse.approval_gate(acuse.operation, timestamptz) is
  'Why an approval does not let it through; null if it does, or if there is none. Dispatch has locked the row before it asks.';

create function acuse.approval_awaited_until(o acuse.operation) returns timestamptz language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  select least(expires_at, o.not_after) from approval where id = o.approval_id;
$$;

create function acuse.charge_approval(o acuse.operation) returns void language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  update approval a set used = used + 1, summed = summed + case when max_sum is null then 0
         else acuse.approval_amount(a, (select body from payload where id = o.id)) end
   where id = o.approval_id;
$$;
comment on function acuse.charge_approval(acuse.operation) is 'Once per operation, by its first dispatch.';

create function acuse.ask_to_stage(p_id uuid, p_tenant text, p_action text, p_target text, p_digest bytea, p_effect_key text, p_body bytea)
  returns acuse.asked_to_stage language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare a approval%rowtype; v_pending boolean;
begin
  select * into a from approval where id = p_id and tenant = p_tenant;
  if not found or not acuse.approval_covers(a, p_action, p_target, p_digest, coalesce(a.effect_key, p_effect_key)) then
    return row('no approval with this id is bound to this tenant, action, target and payload', null, null)::asked_to_stage;
  end if;
  if a.effect_key <> p_effect_key then
    return row('this approval was asked for another intent, with another effect key or call', null, null)::asked_to_stage;
  end if;
  if a.max_sum is not null and acuse.approval_amount(a, p_body) is null then
    return row(format('this approval sums $.%s of the payload, which is no amount here: a number of 0 or more', a.sum_field), null, null)::asked_to_stage;
  end if;
  v_pending := acuse.approval_state(a, clock_timestamp()) = 'pending';
  if v_pending then
    -- Shared, until the caller commits: whoever decides meanwhile waits, and then sees whom to wake.
    select * into a from approval where id = p_id for share;
    v_pending := acuse.approval_state(a, clock_timestamp()) = 'pending';
  end if;
  return row(null, v_pending, a.expires_at)::asked_to_stage;
end $$;

create function acuse.approval_message(a acuse.approval, p_state text) returns jsonb language sql immutable
  set search_path = acuse, pg_catalog, pg_temp
  return jsonb_build_object('id', 'apr_' || replace(a.id::text, '-', '') || '-' || p_state, 'actor', split_part(a.callback, '/', 2),
    'args', '[]'::jsonb, 'options', '{}'::jsonb, 'kwargs', jsonb_build_object(
      'approval_id', 'apr_' || replace(a.id::text, '-', ''), 'state', p_state, 'tenant', a.tenant, 'workflow', a.workflow_id,
      'call', a.call_id, 'action', a.action, 'target', a.target));
comment on function acuse.approval_message(acuse.approval, text) is
  'For the host''s own actor, under an id that stays the same however often it is delivered. No names, no reasons, no payload.';

-- Tells the host, and wakes what waits. Called under the row's lock, in the transaction of whoever moved it.
create function acuse.approval_moved(a acuse.approval, p_state text) returns void language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
begin
  insert into outbox_message (queue, tenant, operation_id, available_at)
    select acuse.queue_of(provider, 'prepared'), tenant, id, clock_timestamp() from operation
     where approval_id = a.id and status = 'prepared' and waiting = 'approval';
  if a.callback is not null then
    insert into outbox_message (queue, tenant, message, available_at)
      values (split_part(a.callback, '/', 1), a.tenant, acuse.approval_message(a, p_state), clock_timestamp());
  end if;
end $$;

-- The message that would tell the host of the expiry. False: it is on its way already, so it has expired for everybody.
create function acuse.expiry_untold(a acuse.approval) returns boolean language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
begin
  if a.expiry_message is null then return true; end if;
  delete from outbox_message where id = a.expiry_message;
  return found;
end $$;

-- request: {"tenant", "action", "target", "body", "effect_key", "workflow"?, "call"?, "callback"?, "by"?, "reason"?,
--           "expires_in"? (seconds) or "expires_at"?, "max_uses"?, "anew"?}
-- The same content again is the same request, whatever became of it: an agent that resumes asks nobody twice. Other content
-- supersedes what was asked or granted before, if nothing was sent under that; or, with "anew", what has ended may be asked again.
-- One row; outcome: created | same | retry_transaction.
create function acuse.request_approval(p_request jsonb)
  returns table (outcome text, id uuid, state text, superseded uuid) language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant text := p_request->>'tenant'; v_key text := p_request->>'effect_key';
  v_body bytea := convert_to(p_request->>'body', 'UTF8'); v_digest bytea := sha256(v_body);
  v_id uuid := acuse.uuid7(); v_now timestamptz; v_state text; v_old uuid; a approval%rowtype;
begin
  for i in 1 .. 3 loop
    select * into a from approval t where t.tenant = v_tenant and t.effect_key = v_key and t.followed_by is null for no key update;
    v_now := clock_timestamp();
    if found then
      v_state := acuse.approval_state(a, v_now);
      if a.digest = v_digest and (v_state = 'pending' or v_state = 'granted' and (a.max_uses is null or a.used < a.max_uses)
                                  or not coalesce((p_request->>'anew')::boolean, false)) then
        return query select 'same', a.id, v_state, null::uuid;
        return;
      end if;
      if v_state in ('pending', 'granted') and a.used = 0 and acuse.expiry_untold(a) then
        v_old := a.id;
      end if;
      update approval t set followed_by = v_id, superseded_at = case when v_old is not null then v_now end where t.id = a.id
        returning * into a;
      if v_old is not null then perform acuse.approval_moved(a, 'superseded'); end if;
    end if;
    insert into approval (id, tenant, action, target, digest, effect_key, workflow_id, call_id, requested_at, requested_by, request_reason,
                          callback, expires_at, max_uses)
      values (v_id, v_tenant, p_request->>'action', p_request->>'target', v_digest, v_key, p_request->>'workflow', p_request->>'call', v_now,
              p_request->>'by', p_request->>'reason', p_request->>'callback',
              coalesce((p_request->>'expires_at')::timestamptz, v_now + make_interval(secs => (p_request->>'expires_in')::double precision)),
              (p_request->>'max_uses')::int)
      on conflict do nothing returning * into a;
    if found then
      insert into payload (id, body) values (v_id, v_body);   -- what the person reads who decides
      perform acuse.approval_moved(a, 'pending');
      if a.callback is not null and a.expires_at is not null then
        with m as (insert into outbox_message (queue, tenant, message, available_at)
                     values (split_part(a.callback, '/', 1), a.tenant, acuse.approval_message(a, 'expired'), a.expires_at)
                   returning outbox_message.id)
        update approval t set expiry_message = m.id from m where t.id = v_id;
      end if;
      return query select 'created', v_id, acuse.approval_state(a, v_now), v_old;
      return;
    end if;
    -- Somebody else asked between the two statements: once more.
  end loop;
  return query select 'retry_transaction', null::uuid, null::text, null::uuid;
end $$;
comment on function acuse.request_approval(jsonb) is 'Asks for an approval of one intent, in the caller''s transaction.';

-- One answer wins, under the row lock; whoever comes later is told what became of it, by whom and when. Null rows: no such approval.
create function acuse.decide_approval(p_tenant text, p_id uuid, p_approve boolean, p_by text, p_reason text, p_expires_in interval)
  returns table (won boolean, state text, by text, at timestamptz, followed_by uuid) language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
#variable_conflict use_column
declare a approval%rowtype; v_now timestamptz; v_state text; v_won boolean;
begin
  select * into a from approval t where t.id = p_id and t.tenant = p_tenant for no key update;
  if not found then return; end if;
  v_now := clock_timestamp();   -- after the wait for the lock
  v_state := acuse.approval_state(a, v_now);
  if v_state = 'pending' and not acuse.expiry_untold(a) then v_state := 'expired'; end if;
  v_won := v_state = 'pending';
  if v_won then
    update approval t set decision = case when p_approve then 'granted' else 'denied' end, decided_by = p_by, decided_at = v_now,
           reason = p_reason, expires_at = coalesce(v_now + p_expires_in, t.expires_at), expiry_message = null
     where t.id = p_id returning * into a;
    v_state := a.decision;
    perform acuse.approval_moved(a, v_state);
  end if;
  return query select v_won, v_state,
    case v_state when 'revoked' then a.revoked_by else a.decided_by end,
    case v_state when 'revoked' then a.revoked_at when 'expired' then a.expires_at when 'superseded' then a.superseded_at else a.decided_at end,
    a.followed_by;
end $$;

create function acuse.grant_approval(p_tenant text, p_action text, p_target text, p_digest bytea, p_by text, p_reason text,
                                     p_expires_at timestamptz, p_max_uses int) returns uuid
  language sql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
  insert into approval (id, tenant, action, target, digest, requested_at, decision, decided_by, decided_at, reason, expires_at, max_uses)
    select acuse.uuid7(), p_tenant, p_action, p_target, p_digest, t, 'granted', p_by, t, p_reason, p_expires_at, p_max_uses
      from clock_timestamp() t returning id;
$$;

create function acuse.grant_pattern(p_tenant text, p_action text, p_target text, p_target_prefix text, p_by text, p_reason text,
                                    p_expires_at timestamptz, p_max_uses int, p_sum_field text, p_max_sum numeric) returns uuid
  language sql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
  insert into approval (id, tenant, action, target, target_prefix, requested_at, decision, decided_by, decided_at, reason, expires_at, max_uses,
                        sum_field, max_sum)
    select acuse.uuid7(), p_tenant, p_action, p_target, p_target_prefix, t, 'granted', p_by, t, p_reason, p_expires_at, p_max_uses,
           p_sum_field, p_max_sum
      from clock_timestamp() t returning id;
$$;

-- Revoking touches its own row only, erases nothing, and answers with what is already in the air. What has ended already stays
-- what it was: an approval that expired was not revoked.
create function acuse.revoke_approval(p_tenant text, p_id uuid, p_by text, p_reason text) returns setof uuid
  language plpgsql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
declare a approval%rowtype; v_now timestamptz; v_state text;
begin
  select * into a from approval where id = p_id and tenant = p_tenant for no key update;
  if not found then
    return next null;   -- no such approval: one empty row, so that the caller's transaction lives
    return;
  end if;
  v_now := clock_timestamp();
  v_state := acuse.approval_state(a, v_now);
  if v_state = 'granted' or v_state = 'pending' and acuse.expiry_untold(a) then
    update approval set revoked_at = v_now, revoked_by = p_by, revoke_reason = p_reason, expiry_message = null where id = p_id returning * into a;
    perform acuse.approval_moved(a, 'revoked');
  end if;
  return query select * from acuse.in_the_air(p_tenant, null, null, p_id);
end $$;
