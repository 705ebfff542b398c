-- Runs of agents: what a model decided, and what became of each of its calls.
--
-- Every function takes and gives one JSON object, locks the row of the run first, reads the clock after it, and says in `outcome` what
-- became of it: `done`, or why nothing was written. A write names the fencing token and the state version that it was made under.

-- Narrow and kept: it is its own tombstone, so that a run that ended is not begun again when its history is gone.
create table acuse.run (
  id            uuid primary key,
  tenant        text not null check (length(tenant) between 1 and 100),
  run_id        text not null check (length(run_id) between 1 and 200),
  workflow_id   text not null check (length(workflow_id) between 1 and 200),
  flow_version  text not null check (length(flow_version) between 1 and 200),
  status        text not null default 'running' check (status in ('running', 'finished', 'cancelled', 'exhausted')),
  turns         int not null default 0,              -- decisions stored over its whole life; a rewind does not lower it
  max_turns     int not null check (max_turns > 0),
  step          int not null default 0,              -- how many decisions its conversation holds; effect keys are made of it
  deaths        int not null default 0,              -- owners that were lost since something was last stored
  tokens_used   bigint not null default 0 check (tokens_used >= 0),   -- of the context window as it is: replaced, never summed
  state_version bigint not null default 1,
  owner         text check (length(owner) between 1 and 200),
  fence         bigint not null default 1,
  lease         interval not null check (lease > interval '0'),
  lease_until   timestamptz,
  forked_from   uuid,
  created_at    timestamptz not null,
  updated_at    timestamptz not null,
  ended_at      timestamptz,
  ended_by      text check (length(ended_by) between 1 and 200),
  reason        text check (length(reason) <= 2000),

  constraint turns_are_limited check (turns between 0 and max_turns),
  constraint deaths_are_limited check (deaths between 0 and max_turns),
  constraint steps_are_turns check (step between 0 and turns),
  constraint a_lease_has_an_owner check ((owner is null) = (lease_until is null)),
  constraint an_ended_run_has_no_owner check ((status = 'running') = (ended_at is null) and (status = 'running' or owner is null))
);
create unique index one_run_per_id on acuse.run (tenant, run_id);
create index run_workflow on acuse.run (tenant, workflow_id);

-- Apart from the run and by month of its UUIDv7, as the history of operations is.
create table acuse.run_message (
  run     uuid not null,
  seq     bigint not null,            -- the state version that it made
  step    int not null,               -- of the decision that it is, or follows
  role    text not null check (role in ('user', 'assistant')),
  body    text not null check (length(body) <= 4000000),   -- byte for byte as it goes to the model
  dropped boolean not null default false,                  -- a rewind went behind it
  at      timestamptz not null,
  primary key (run, seq)
) partition by range (run);

create table acuse.tool_call (
  run          uuid not null,
  turn         int not null,          -- of the run's whole life
  position     int not null check (position >= 0),
  step         int not null,          -- of the conversation: what is decided anew after a rewind stands at the same step
  tenant       text not null,
  call_id      text not null check (length(call_id) between 1 and 200),   -- the model's own; for tracing, never for identity
  tool         text not null check (length(tool) between 1 and 100),
  arguments    text not null check (length(arguments) <= 4000000),
  nature       text check (nature in ('read_only', 'overwrites', 'ensures', 'appends', 'effect')),
  target       text check (length(target) between 1 and 200),   -- what an overwriting tool writes to
  effect_key   text check (length(effect_key) between 1 and 200),
  operation_id uuid,
  approval     text check (length(approval) <= 200),
  begun_at     timestamptz,           -- written before the tool runs
  begun_fence  bigint,
  begun_token  uuid,                  -- of the request that began it: the same request has not begun it before
  outcome      text check (length(outcome) between 1 and 40),
  content      text check (length(content) <= 4000000),
  is_error     boolean,
  answered_at  timestamptz,
  dropped      boolean not null default false,
  primary key (run, turn, position),
  unique (run, turn, call_id),
  constraint an_answer_is_whole check (num_nonnulls(outcome, content, is_error, answered_at) in (0, 4)),
  constraint begun_under_a_token check ((begun_at is null) = (begun_fence is null))
) partition by range (run);
create index tool_call_target on acuse.tool_call (tenant, tool, target, begun_at) where target is not null;

-- Numbers that only rise, and words that never change.
create function acuse.refuse_run_regress() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if new.turns < old.turns or new.fence < old.fence or new.state_version < old.state_version then
    raise exception 'turns, fencing token and state version of a run never fall' using errcode = 'check_violation', constraint = 'run_rises';
  end if;
  if (new.id, new.tenant, new.run_id, new.workflow_id, new.flow_version, new.max_turns)
     is distinct from (old.id, old.tenant, old.run_id, old.workflow_id, old.flow_version, old.max_turns) then
    raise exception 'what a run is never changes: start another' using errcode = 'check_violation', constraint = 'run_fixed';
  end if;
  if old.status <> 'running' and new.status <> old.status then
    raise exception 'a run that ended stays ended' using errcode = 'check_violation', constraint = 'run_ended';
  end if;
  return new;
end $$;
create trigger only_forward before update on acuse.run for each row execute function acuse.refuse_run_regress();

create function acuse.refuse_new_words() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_table_name like 'run_message%' then
    if (new.run, new.seq, new.step, new.role, new.body) is distinct from (old.run, old.seq, old.step, old.role, old.body) then
      raise exception 'a stored message never changes' using errcode = 'check_violation', constraint = 'message_fixed';
    end if;
  elsif (new.run, new.turn, new.position, new.step, new.call_id, new.tool, new.arguments)
        is distinct from (old.run, old.turn, old.position, old.step, old.call_id, old.tool, old.arguments)
        or old.outcome is not null
           and (new.outcome, new.content, new.is_error) is distinct from (old.outcome, old.content, old.is_error) then
    raise exception 'a stored call, and the answer that it was given, never change' using errcode = 'check_violation', constraint = 'call_fixed';
  end if;
  return new;
end $$;
create trigger never_reworded before update on acuse.run_message for each row execute function acuse.refuse_new_words();
create trigger never_reworded before update on acuse.tool_call for each row execute function acuse.refuse_new_words();

create function acuse.run_json(p_outcome text, r acuse.run) returns jsonb language sql stable
  set search_path = acuse, pg_catalog, pg_temp as $$
  select jsonb_build_object('outcome', p_outcome, 'id', r.id, 'tenant', r.tenant, 'run_id', r.run_id, 'workflow', r.workflow_id,
    'flow_version', r.flow_version, 'status', r.status, 'turns', r.turns, 'max_turns', r.max_turns, 'step', r.step, 'deaths', r.deaths,
    'tokens_used', r.tokens_used, 'state_version', r.state_version, 'owner', r.owner, 'fence', r.fence,
    'lease', extract(epoch from r.lease), 'lease_until', r.lease_until)
$$;

create function acuse.run_standing(p_tenant text, p_workflow text, p_flow_version text) returns text language sql stable
  set search_path = acuse, pg_catalog, pg_temp as $$
  select case
    when exists (select 1 from workflow where (tenant, workflow_id) = (p_tenant, p_workflow)) then 'cancelled'
    when exists (select 1 from flow_version f where (f.tenant, f.flow_version) = (p_tenant, p_flow_version)) then 'withdrawn'
  end
$$;

-- Why a write of this owner is not taken; null if it is. The caller has locked the row.
create function acuse.run_refuses(r acuse.run, p jsonb) returns text language sql stable
  set search_path = acuse, pg_catalog, pg_temp as $$
  select case
    when r.id is null then 'missing'
    when r.fence <> (p->>'fence')::bigint then case when r.status = 'running' then 'lost' else 'ended' end
    when r.status <> 'running' then 'ended'
    when r.state_version <> (p->>'state_version')::bigint then 'stale'
  end
$$;

create function acuse.start_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_now timestamptz := clock_timestamp(); v_lease interval := make_interval(secs => (p->>'lease')::double precision);
  v_standing text := acuse.run_standing(p->>'tenant', p->>'workflow', p->>'flow_version');
begin
  if v_standing is not null then return jsonb_build_object('outcome', v_standing); end if;
  insert into run (id, tenant, run_id, workflow_id, flow_version, max_turns, owner, lease, lease_until, created_at, updated_at)
    values (acuse.uuid7(), p->>'tenant', p->>'run_id', p->>'workflow', p->>'flow_version', (p->>'max_turns')::int, p->>'owner',
            v_lease, v_now + v_lease, v_now, v_now)
    on conflict do nothing returning * into r;
  if not found then
    return jsonb_build_object('outcome', 'exists', 'status',
      (select status from run where (tenant, run_id) = (p->>'tenant', p->>'run_id')));
  end if;
  insert into run_message (run, seq, step, role, body, at) values (r.id, 1, 0, 'user', p->>'task', v_now);
  return acuse.run_json('done', r);
end $$;

-- Somebody new goes on with a run, under a higher token. An owner that did not give it back has died.
create function acuse.take_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_now timestamptz; v_standing text; v_lease interval := make_interval(secs => (p->>'lease')::double precision);
begin
  select * into r from run where (tenant, run_id) = (p->>'tenant', p->>'run_id') for no key update;
  if not found then return jsonb_build_object('outcome', 'missing'); end if;
  v_now := clock_timestamp();
  if r.flow_version <> p->>'flow_version' then return acuse.run_json('other_version', r); end if;
  if r.status <> 'running' then return acuse.run_json('ended', r); end if;
  v_standing := acuse.run_standing(r.tenant, r.workflow_id, r.flow_version);
  if v_standing is not null then return acuse.run_json(v_standing, r); end if;
  if r.lease_until > v_now then return acuse.run_json('owned', r); end if;
  if r.owner is not null and r.deaths >= r.max_turns then return acuse.run_json('exhausted', r); end if;
  update run set owner = p->>'owner', fence = r.fence + 1, lease = v_lease, lease_until = v_now + v_lease, updated_at = v_now,
         deaths = r.deaths + case when r.owner is null then 0 else 1 end
   where id = r.id returning * into r;
  return acuse.run_json('done', r);
end $$;

-- renew | release | finish: what an owner says about itself. An expired lease that nobody took is still its own.
create function acuse.keep_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_refused text; v_now timestamptz;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  v_now := clock_timestamp();
  if p->>'act' = 'renew' then
    update run set lease_until = v_now + lease, updated_at = v_now where id = r.id returning * into r;
  elsif p->>'act' = 'release' then
    update run set owner = null, lease_until = null, fence = fence + 1, deaths = 0, updated_at = v_now where id = r.id returning * into r;
  else
    update run set owner = null, lease_until = null, status = p->>'act', state_version = state_version + 1, ended_at = v_now,
           ended_by = r.owner, updated_at = v_now where id = r.id returning * into r;
  end if;
  return acuse.run_json('done', r);
end $$;

-- A turn: what the model decided, with its calls, before any of them runs.
create function acuse.decide_turn(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_refused text; v_now timestamptz;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  -- The reply to its COMMIT was lost, and it says the same again.
  if v_refused = 'stale' and r.state_version = (p->>'state_version')::bigint + 1
     and exists (select 1 from run_message where run = r.id and seq = r.state_version and role = 'assistant' and body = p->>'message')
     and (select coalesce(jsonb_agg(jsonb_build_object('id', call_id, 'tool', tool, 'arguments', arguments) order by position), '[]')
            from tool_call where run = r.id and turn = r.turns) = p->'calls' then
    return acuse.run_json('done', r);
  end if;
  v_refused := coalesce(v_refused, acuse.run_standing(r.tenant, r.workflow_id, r.flow_version));
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  if exists (select 1 from tool_call where run = r.id and step = r.step and not dropped and outcome is null) then
    return acuse.run_json('unanswered', r) || jsonb_build_object('calls', (select jsonb_agg(call_id order by position)
      from tool_call where run = r.id and step = r.step and not dropped and outcome is null));
  end if;
  if r.turns >= r.max_turns then return acuse.run_json('exhausted', r); end if;
  v_now := clock_timestamp();
  update run set turns = turns + 1, step = step + 1, state_version = state_version + 1, deaths = 0, lease_until = v_now + lease,
         updated_at = v_now, tokens_used = coalesce((p->>'tokens_used')::bigint, tokens_used)
   where id = r.id returning * into r;
  insert into run_message (run, seq, step, role, body, at) values (r.id, r.state_version, r.step, 'assistant', p->>'message', v_now);
  insert into tool_call (run, turn, position, step, tenant, call_id, tool, arguments)
    select r.id, r.turns, c.n - 1, r.step, r.tenant, c.call->>'id', c.call->>'tool', c.call->>'arguments'
      from jsonb_array_elements(p->'calls') with ordinality c(call, n);
  return acuse.run_json('done', r);
end $$;

-- What else is said to the model, after the answers to its calls.
create function acuse.tell_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_refused text; v_now timestamptz;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  v_now := clock_timestamp();
  update run set state_version = state_version + 1, deaths = 0, lease_until = v_now + lease, updated_at = v_now
   where id = r.id returning * into r;
  insert into run_message (run, seq, step, role, body, at) values (r.id, r.state_version, r.step, 'user', p->>'message', v_now);
  return acuse.run_json('done', r);
end $$;

create function acuse.call_json(c acuse.tool_call) returns jsonb language sql stable set search_path = acuse, pg_catalog, pg_temp as $$
  select jsonb_build_object('turn', c.turn, 'step', c.step, 'position', c.position, 'id', c.call_id, 'tool', c.tool, 'arguments', c.arguments,
    'nature', c.nature, 'operation_id', c.operation_id, 'approval', c.approval, 'begun', c.begun_at is not null, 'outcome', c.outcome,
    'content', c.content, 'is_error', c.is_error)
$$;

-- Before a tool runs, or its effect is staged in the same transaction. `begun`: none (it is the first time), same_owner, earlier_owner.
-- `superseded`: a later call wrote to the same target. With "look" nothing is written, but the run's row is locked until the caller commits.
create function acuse.begin_call(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; c tool_call%rowtype; v_refused text; v_begun text; v_now timestamptz;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  select * into c from tool_call where run = r.id and step = r.step and call_id = p->>'call_id' and not dropped;
  if not found then return acuse.run_json('no_call', r); end if;
  if c.outcome is not null then return acuse.run_json('answered', r) || jsonb_build_object('call', acuse.call_json(c)); end if;
  v_now := clock_timestamp();
  v_begun := case when c.begun_at is null or c.begun_token = (p->>'token')::uuid then 'none' when c.begun_fence = r.fence then 'same_owner' else 'earlier_owner' end;
  v_refused := acuse.run_standing(r.tenant, r.workflow_id, r.flow_version);
  if v_refused is not null then
    return acuse.run_json(v_refused, r) || jsonb_build_object('call', acuse.call_json(c), 'begun', v_begun);
  end if;
  if p->>'nature' = 'overwrites' and v_begun <> 'none' and exists (
       select 1 from tool_call o where (o.tenant, o.tool, o.target) = (c.tenant, c.tool, p->>'target') and o.begun_at > c.begun_at
          and (o.run, o.turn, o.position) <> (c.run, c.turn, c.position)) then
    return acuse.run_json('superseded', r) || jsonb_build_object('call', acuse.call_json(c), 'begun', v_begun);
  end if;
  if coalesce((p->>'look')::boolean, false) then
    return acuse.run_json('done', r) || jsonb_build_object('call', acuse.call_json(c), 'begun', v_begun);
  end if;
  update tool_call set nature = p->>'nature', target = p->>'target', effect_key = p->>'effect_key', begun_at = v_now, begun_fence = r.fence,
         begun_token = (p->>'token')::uuid, operation_id = coalesce((p->>'operation_id')::uuid, operation_id), approval = coalesce(p->>'approval', approval)
   where (run, turn, position) = (c.run, c.turn, c.position) returning * into c;
  update run set lease_until = v_now + lease, updated_at = v_now where id = r.id returning * into r;
  return acuse.run_json('done', r) || jsonb_build_object('call', acuse.call_json(c), 'begun', v_begun);
end $$;

-- What a call came to: told to the model, so it is written once. The same again is no error; anything else gets what stands.
create function acuse.answer_call(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; c tool_call%rowtype; v_refused text; v_now timestamptz;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  select * into c from tool_call where run = r.id and step = r.step and call_id = p->>'call_id' and not dropped;
  if not found then return acuse.run_json('no_call', r); end if;
  if c.outcome is not null then return acuse.run_json('answered', r) || jsonb_build_object('call', acuse.call_json(c)); end if;
  v_now := clock_timestamp();
  update tool_call set outcome = p->>'outcome', content = p->>'content', is_error = (p->>'is_error')::boolean, answered_at = v_now,
         operation_id = coalesce((p->>'operation_id')::uuid, operation_id)
   where (run, turn, position) = (c.run, c.turn, c.position) returning * into c;
  update run set deaths = 0, lease_until = v_now + lease, updated_at = v_now where id = r.id returning * into r;
  return acuse.run_json('done', r) || jsonb_build_object('call', acuse.call_json(c));
end $$;

-- The conversation as it stands: messages in order, and every call with its answer and what the ledger says of its operation.
create function acuse.read_run(p_tenant text, p_run text) returns jsonb language sql stable security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
  select acuse.run_json('done', r) || jsonb_build_object(
    'messages', (select coalesce(jsonb_agg(jsonb_build_object('step', m.step, 'role', m.role, 'body', m.body) order by m.seq), '[]')
                   from run_message m where m.run = r.id and not m.dropped),
    'calls', (select coalesce(jsonb_agg(acuse.call_json(c) || jsonb_build_object('state', o.status) order by c.turn, c.position), '[]')
                from tool_call c left join operation o on o.id = c.operation_id where c.run = r.id and not c.dropped))
    from run r where (r.tenant, r.run_id) = (p_tenant, p_run)
$$;

-- Operations of the workflow of which no call in this conversation tells: a fork or a rewind went behind them, and they are facts.
create function acuse.untold(p_run uuid) returns jsonb language sql stable security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
  select coalesce(jsonb_agg(jsonb_build_object('operation_id', o.id, 'action', o.action, 'target', o.target, 'state', o.status,
                                               'result_id', o.result_id) order by o.seq), '[]')
    from run r join operation o on (o.tenant, o.workflow_id) = (r.tenant, r.workflow_id)
   where r.id = p_run
     and not exists (select 1 from tool_call c where c.run = r.id and c.operation_id = o.id and not c.dropped)
$$;

-- Nothing of its workflow is sent any more. It needs no owner, and takes the run away from the one that it has.
create function acuse.cancel_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_now timestamptz; v_air jsonb;
begin
  select * into r from run where (tenant, run_id) = (p->>'tenant', p->>'run_id') for no key update;
  if not found then return jsonb_build_object('outcome', 'missing'); end if;
  v_now := clock_timestamp();
  if r.status = 'running' then
    update run set status = 'cancelled', owner = null, lease_until = null, fence = fence + 1, state_version = state_version + 1,
           ended_at = v_now, ended_by = p->>'by', reason = p->>'reason', updated_at = v_now where id = r.id returning * into r;
  end if;
  select coalesce(jsonb_agg(c), '[]') into v_air from acuse.cancel_workflow(r.tenant, r.workflow_id, p->>'by', p->>'reason') c;
  return acuse.run_json('done', r) || jsonb_build_object('in_the_air', v_air);
end $$;

-- Another run goes on from a step of this one, in the same workflow: what happened has happened, under the same keys.
create function acuse.fork_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; n run%rowtype; v_now timestamptz; v_step int := (p->>'at_step')::int; v_standing text;
  v_lease interval := make_interval(secs => (p->>'lease')::double precision);
begin
  select * into r from run where (tenant, run_id) = (p->>'tenant', p->>'run_id') for no key update;
  if not found then return jsonb_build_object('outcome', 'missing'); end if;
  v_now := clock_timestamp();
  v_standing := acuse.run_standing(r.tenant, r.workflow_id, coalesce(p->>'flow_version', r.flow_version));
  if v_standing is not null then return acuse.run_json(v_standing, r); end if;
  if v_step not between 0 and r.step then return acuse.run_json('no_step', r); end if;
  if v_step > coalesce((p->>'max_turns')::int, r.max_turns) then return acuse.run_json('exhausted', r); end if;
  insert into run (id, tenant, run_id, workflow_id, flow_version, turns, max_turns, step, tokens_used, state_version, owner, lease,
                   lease_until, forked_from, created_at, updated_at)
    values (acuse.uuid7(), r.tenant, p->>'new_run_id', r.workflow_id, coalesce(p->>'flow_version', r.flow_version), v_step,
            coalesce((p->>'max_turns')::int, r.max_turns), v_step, r.tokens_used, r.state_version, p->>'owner', v_lease, v_now + v_lease,
            r.id, v_now, v_now)
    on conflict do nothing returning * into n;
  if not found then return acuse.run_json('exists', r); end if;
  insert into run_message (run, seq, step, role, body, at)
    select n.id, seq, step, role, body, at from run_message
     where run = r.id and not dropped and (step < v_step or step = v_step and (role = 'assistant' or v_step = 0));
  insert into tool_call (run, turn, position, step, tenant, call_id, tool, arguments, nature, target, effect_key, operation_id, approval,
                         begun_at, begun_fence, outcome, content, is_error, answered_at)
    select n.id, step, position, step, tenant, call_id, tool, arguments, nature, target, effect_key, operation_id, approval, begun_at, 0,
           outcome, content, is_error, answered_at
      from tool_call where run = r.id and not dropped and step <= v_step and begun_at is not null
    union all
    select n.id, step, position, step, tenant, call_id, tool, arguments, null, null, null, operation_id, null, null, null,
           outcome, content, is_error, answered_at
      from tool_call where run = r.id and not dropped and step <= v_step and begun_at is null;
  return acuse.run_json('done', n);
end $$;

-- The conversation goes back behind a step. Turns that were used stay used, and what happened stays a fact.
create function acuse.rewind_run(p jsonb) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype; v_refused text; v_now timestamptz; v_step int := (p->>'to_step')::int;
begin
  select * into r from run where id = (p->>'id')::uuid for no key update;
  v_refused := acuse.run_refuses(r, p);
  if v_refused is not null then return acuse.run_json(v_refused, r); end if;
  if v_step not between 0 and r.step then return acuse.run_json('no_step', r); end if;
  v_now := clock_timestamp();
  update run_message set dropped = true where run = r.id and not dropped
     and (step > v_step or step = v_step and v_step > 0 and role = 'user');
  update tool_call set dropped = true where run = r.id and not dropped and step > v_step;
  update run set step = v_step, state_version = state_version + 1, lease_until = v_now + lease, updated_at = v_now
   where id = r.id returning * into r;
  return acuse.run_json('done', r);
end $$;

-- The words of a run that ended. Its row stays, and so do its operations.
create function acuse.forget_run(p_tenant text, p_run text) returns jsonb language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare r run%rowtype;
begin
  select * into r from run where (tenant, run_id) = (p_tenant, p_run) for no key update;
  if not found then return jsonb_build_object('outcome', 'missing'); end if;
  if r.status = 'running' then return acuse.run_json('running', r); end if;
  delete from run_message where run = r.id;
  delete from tool_call where run = r.id;
  return acuse.run_json('done', r);
end $$;
