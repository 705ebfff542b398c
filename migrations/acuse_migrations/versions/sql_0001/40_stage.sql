-- stage: the only writer of operations, in the caller's own transaction and in one round trip.
--
-- request: {"tenant", "workflow"?, "flow_version"?, "trace"?, "event"?: {"name", "key"?, "body"}, "items": [item, ...]}
-- item:    {"effect_key"?, "call"?, "action", "account", "target", "body", "approval"?, "ordering_key"?, "not_after"?,
--           "on_settled"?, "value"?, "distinct"?, "succeeds"?, "compensates"?, "after"?: [{"id"} | {"ref": index of an earlier item}]}
-- "body" is the RFC 8785 text of {"action", "payload", "target"}; it is kept as it is, and its SHA-256 is the digest.
--
-- One row per item, by its index in `ref`: created | same | in_doubt. If anything is refused (conflict, event_conflict,
-- not_rejected, approval_mismatch, dependency_missing, retry_transaction), one row says so and NOTHING was written.
-- An event that was said before returns the operations that it made then; those that the routes make no more come last.
--
-- Why a function: an INSERT … ON CONFLICT and a look in one statement share a snapshot, and after waiting for a concurrent
-- committer that snapshot is too old to see its row. Each statement in here has its own.

create function acuse.queue_of(p_provider text, p_status text) returns text language sql immutable
  set search_path = pg_catalog, pg_temp
  return 'acuse.' || p_provider || case p_status when 'unknown' then '.doubt' else '' end;
comment on function acuse.queue_of(text, text) is
  'Operations in doubt travel on a queue of their own: behind a backlog of new ones, the windows of their keys would run out.';

create type acuse.staged as (
  ref int, outcome text, operation_id uuid, event_id uuid, status text, result_id text, existing bytea, detail text
);

create type acuse.asked_to_stage as (refused text, pending boolean, until timestamptz);   -- what an approval says to it: 92_approvals

create function acuse.stage_item(p_request jsonb, p_item jsonb, p_ref int, p_event uuid, p_refs uuid[])
  returns acuse.staged language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  v_tenant text := p_request->>'tenant'; v_workflow text := p_request->>'workflow';
  v_action text := p_item->>'action'; v_target text := p_item->>'target'; v_account text := coalesce(p_item->>'account', 'default');
  v_body bytea := convert_to(p_item->>'body', 'UTF8'); v_digest bytea := sha256(v_body);
  v_key text := p_item->>'effect_key'; v_generation int := 0;
  v_succeeds uuid := (p_item->>'succeeds')::uuid; v_approval uuid := (p_item->>'approval')::uuid;
  v_deliberate boolean := coalesce((p_item->>'distinct')::boolean, false);
  v_provider text := split_part(v_action, '.', 1); v_queue text := acuse.queue_of(split_part(v_action, '.', 1), 'prepared');
  v_id uuid := acuse.uuid7(); v_needs uuid[]; v_now timestamptz; v_old operation%rowtype; v_said json;
  v_asked asked_to_stage;
begin
  v_said := (p_item->>'body')::json;
  if v_said->>'action' is distinct from v_action or v_said->>'target' is distinct from v_target or v_said->'payload' is null then
    raise exception 'stage: item % body must be the canonical JSON of {action, payload, target} of the same item', p_ref
      using errcode = 'invalid_parameter_value';
  end if;
  if p_item->>'on_settled' like 'acuse.%' then
    raise exception 'stage: item % on_settled names a queue that begins with "acuse.", which carries operations: give a queue of your own',
      p_ref using errcode = 'invalid_parameter_value';
  end if;
  if v_succeeds is not null then
    select * into v_old from operation where id = v_succeeds and tenant = v_tenant for no key update;
    if not found or v_old.status <> 'rejected' then
      return row(p_ref, 'not_rejected', v_succeeds, null, v_old.status, null, null,
                 'succeeds must name a rejected operation of the same tenant')::staged;
    end if;
    if (v_old.action, v_old.target) is distinct from (v_action, v_target) then
      return row(p_ref, 'not_rejected', v_succeeds, null, v_old.status, null, null,
                 'succeeds must keep action and target')::staged;
    end if;
    v_key := v_old.effect_key;
    v_generation := v_old.generation + 1;
  end if;
  if v_approval is not null then
    v_asked := acuse.ask_to_stage(v_approval, v_tenant, v_action, v_target, v_digest, v_key, v_body);
    if v_asked.refused is not null then
      return row(p_ref, 'approval_mismatch', null, null, null, null, null, v_asked.refused)::staged;
    end if;
  end if;
  select array_agg(coalesce((a->>'id')::uuid, p_refs[(a->>'ref')::int + 1])) into v_needs
    from jsonb_array_elements(coalesce(p_item->'after', '[]')) a;
  if v_needs is not null and (array_position(v_needs, null) is not null or exists (
       select 1 from unnest(v_needs) n where not exists (select 1 from operation where id = n and tenant = v_tenant))) then
    return row(p_ref, 'dependency_missing', null, null, null, null, null,
               'after must name operations of the same tenant that exist, or earlier items')::staged;
  end if;
  if p_item->>'compensates' is not null
     and not exists (select 1 from operation where id = (p_item->>'compensates')::uuid and tenant = v_tenant) then
    return row(p_ref, 'dependency_missing', null, null, null, null, null,
               'compensates must name an operation of the same tenant that exists')::staged;
  end if;
  -- Same action and target, and that one is in doubt: the agent asks again in other words. A look, not an index: as an
  -- index the second transition to unknown would fail for ever.
  if v_workflow is not null and not v_deliberate and v_succeeds is null then
    select * into v_old from operation where (tenant, workflow_id, action, target) = (v_tenant, v_workflow, v_action, v_target)
       and status in ('dispatching', 'unknown') and not deliberate and workflow_id is not null
       and (effect_key, generation) <> (v_key, v_generation) limit 1;
    if found then
      return row(p_ref, 'in_doubt', v_old.id, v_old.event_id, v_old.status, v_old.result_id, null, null)::staged;
    end if;
  end if;
  for i in 1 .. 3 loop
    v_now := clock_timestamp();
    insert into operation (id, tenant, event_id, workflow_id, flow_version, call_id, effect_key, generation, succeeds, compensates,
        action, provider, account, target, digest, approval_id, ordering_key, not_after, deliberate, value, on_settled, trace_context,
        handed_at, waiting, due_at, created_at, updated_at)
      values (v_id, v_tenant, p_event, v_workflow, p_request->>'flow_version', p_item->>'call', v_key, v_generation, v_succeeds,
        (p_item->>'compensates')::uuid, v_action, v_provider, v_account, v_target, v_digest, v_approval, p_item->>'ordering_key',
        (p_item->>'not_after')::timestamptz, v_deliberate, (p_item->>'value')::numeric, p_item->>'on_settled', p_request->>'trace',
        case when v_asked.pending is not true then v_now end, case when v_asked.pending then 'approval' end,
        case when v_asked.pending then least(v_asked.until, (p_item->>'not_after')::timestamptz) end, v_now, v_now)
      on conflict do nothing;
    if found then
      insert into payload (id, body) values (v_id, v_body);
      insert into ledger (operation_id, version, at, kind, to_status, by, actor)
        values (v_id, 1, v_now, 'staged', 'prepared', 'host', p_item->>'call');
      insert into dependency (operation_id, needs) select distinct v_id, n from unnest(v_needs) n;
      if v_asked.pending is not true then   -- else whoever decides wakes it
        insert into outbox_message (queue, tenant, operation_id, available_at) values (v_queue, v_tenant, v_id, v_now);
      end if;
      return row(p_ref, 'created', v_id, p_event, 'prepared', null, null, null)::staged;
    end if;
    select * into v_old from operation where (tenant, effect_key, generation) = (v_tenant, v_key, v_generation);
    if found then
      if v_old.digest = v_digest and v_old.account = v_account then
        return row(p_ref, 'same', v_old.id, v_old.event_id, v_old.status, v_old.result_id, null, null)::staged;
      end if;
      return row(p_ref, 'conflict', v_old.id, v_old.event_id, v_old.status, null,
                 (select body from payload where id = v_old.id), v_old.account)::staged;
    end if;
    select * into v_old from operation where (tenant, workflow_id, action, target, digest)
       = (v_tenant, v_workflow, v_action, v_target, v_digest) and status in ('prepared', 'dispatching', 'unknown')
       and not deliberate and workflow_id is not null;
    if found then
      return row(p_ref, 'in_doubt', v_old.id, v_old.event_id, v_old.status, v_old.result_id, null, null)::staged;
    end if;
    -- The row that stood in the way was settled or rolled back between the two statements: once more.
  end loop;
  return row(p_ref, 'retry_transaction', null, null, null, null, null, 'another transaction was in the way')::staged;
end $$;

create function acuse.stage_all(p_request jsonb) returns setof acuse.staged language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  v_item record; v_row staged; v_refs uuid[] := array[]::uuid[]; v_rows staged[] := array[]::staged[];
  v_event jsonb := p_request->'event'; v_event_id uuid; v_old event%rowtype; v_body bytea;
begin
  if v_event is not null and jsonb_typeof(v_event) = 'object' then
    v_body := convert_to(v_event->>'body', 'UTF8');
    v_event_id := acuse.uuid7();
    insert into event (id, tenant, name, key, workflow_id, digest, trace_context, created_at)
      values (v_event_id, p_request->>'tenant', v_event->>'name', v_event->>'key', p_request->>'workflow', sha256(v_body),
              p_request->>'trace', clock_timestamp())
      on conflict do nothing;
    if not found then
      select * into v_old from event
        where (tenant, name, key) = (p_request->>'tenant', v_event->>'name', v_event->>'key') and key is not null;
      if not found then
        raise exception 'stage: another transaction was in the way' using errcode = 'serialization_failure';
      end if;
      if v_old.digest <> sha256(v_body) then
        return next row(-1, 'event_conflict', null, v_old.id, null, null, (select body from payload where id = v_old.id), null)::staged;
        return;
      end if;
      return next row(-1, 'same', null, v_old.id, null, null, null, null)::staged;
      return query select coalesce((select min(i.n)::int - 1 from jsonb_array_elements(p_request->'items') with ordinality i(item, n)
                                     where i.item->>'effect_key' = o.effect_key), 1000000 + (row_number() over (order by o.seq))::int),
          'same', o.id, o.event_id, o.status, o.result_id, null::bytea, null
        from operation o where o.event_id = v_old.id and o.generation = 0;
      return;
    end if;
    insert into payload (id, body) values (v_event_id, v_body);
    return next row(-1, 'created', null, v_event_id, null, null, null, null)::staged;
  end if;
  -- Keys in opposite order deadlock: all callers take them in one order, dependencies first where a request names its own.
  for v_item in
    select i.item, (i.n - 1)::int as ref from jsonb_array_elements(p_request->'items') with ordinality i(item, n)
     order by jsonb_path_exists(i.item, '$.after[*].ref'), case when jsonb_path_exists(i.item, '$.after[*].ref') then i.n end,
              i.item->>'effect_key', i.n
  loop
    v_row := stage_item(p_request, v_item.item, v_item.ref, v_event_id, v_refs);
    if v_row.outcome not in ('created', 'same', 'in_doubt') then
      -- Undone as a whole by the block in stage: nothing of the request stays.
      raise exception 'acuse: refused' using errcode = 'AC001', detail = row_to_json(v_row)::text;
    end if;
    v_refs[v_item.ref + 1] := v_row.operation_id;
    return next v_row;
  end loop;
end $$;

create function acuse.stage(p_request jsonb) returns setof acuse.staged language plpgsql volatile security definer
  set search_path = acuse, pg_catalog, pg_temp as $$
declare
  v_detail text; v_row staged;
begin
  if coalesce(p_request->>'tenant', '') = '' then
    raise exception 'stage: tenant is missing' using errcode = 'invalid_parameter_value';
  end if;
  if current_setting('transaction_isolation') = 'read committed' and p_request->'event' is null
     and jsonb_array_length(p_request->'items') = 1 then
    return next stage_item(p_request, p_request->'items'->0, 0, null, array[]::uuid[]);
    return;
  end if;
  begin   -- a subtransaction, so that a refusal leaves nothing and the caller's transaction lives
    return query select * from stage_all(p_request);
  exception
    when sqlstate 'AC001' then
      get stacked diagnostics v_detail = pg_exception_detail;
      select * into v_row from json_populate_record(null::staged, v_detail::json);
      return next v_row;
    when serialization_failure then
      return next row(-1, 'retry_transaction', null, null, null, null, null,
                      'another transaction staged the same intent: roll back and run the transaction again')::staged;
  end;
end $$;
comment on function acuse.stage(jsonb) is
  'Writes operations, their first ledger entries and outbox messages in the caller''s transaction. The host''s role needs EXECUTE only.';

-- p_tenant: whose share of the queue it uses; '' is one share for all messages that name nobody.
create function acuse.send(p_queue text, p_message jsonb, p_available_at timestamptz default null, p_tenant text default '') returns bigint
  language plpgsql volatile security definer set search_path = acuse, pg_catalog, pg_temp as $$
declare v_id bigint;
begin
  if p_queue like 'acuse.%' then
    raise exception 'send: queue begins with "acuse.", which carries operations: give a queue of your own'
      using errcode = 'invalid_parameter_value';
  end if;
  insert into outbox_message (queue, tenant, message, available_at)
    values (p_queue, p_tenant, p_message, coalesce(p_available_at, clock_timestamp())) returning id into v_id;
  return v_id;
end $$;
comment on function acuse.send(text, jsonb, timestamptz, text) is 'Puts any message of the host through the same outbox.';
