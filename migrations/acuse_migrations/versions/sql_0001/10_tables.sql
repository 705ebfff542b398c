-- Tables of the ledger. Every time is the database's clock. Every invariant that one row can show is a CHECK; what two rows
-- can show is a unique index; what is left is a guarded update in a function.

create table acuse.meta (
  key   text primary key,
  value text not null
);
comment on table acuse.meta is 'One row per fact about this ledger; ledger_id tells messages of this ledger from those of another.';

-- What the business says happened. Narrow and kept: it is its own tombstone, so that an event is never taken twice.
create table acuse.event (
  id            uuid primary key,
  tenant        text not null check (length(tenant) between 1 and 100),
  name          text not null check (length(name) between 1 and 100),
  key           text check (length(key) between 1 and 200),
  workflow_id   text check (length(workflow_id) between 1 and 200),
  digest        bytea not null check (length(digest) = 32),
  trace_context text check (length(trace_context) <= 200),
  created_at    timestamptz not null
);
create unique index event_key on acuse.event (tenant, name, key) where key is not null;
comment on index acuse.event_key is 'The same event said twice is one event.';

-- The durable record of one effect at one provider account. It cannot be partitioned by time: the effect key, the chain and
-- the doubt slot would need the partition key. So it stays whole and narrow, and outlives its payload as its own tombstone.
create table acuse.operation (
  id                  uuid primary key,
  seq                 bigint generated always as identity,   -- order drawn at stage
  tenant              text not null check (length(tenant) between 1 and 100),
  event_id            uuid,
  workflow_id         text check (length(workflow_id) between 1 and 200),
  flow_version        text check (length(flow_version) between 1 and 200),
  call_id             text check (length(call_id) between 1 and 200),
  effect_key          text not null check (length(effect_key) between 1 and 200),
  generation          int not null default 0 check (generation >= 0),
  succeeds            uuid,
  compensates         uuid,
  action              text not null check (length(action) between 1 and 100),
  provider            text not null check (length(provider) between 1 and 100),
  account             text not null check (length(account) between 1 and 100),
  target              text not null check (length(target) between 1 and 200),
  digest              bytea not null check (length(digest) = 32),
  approval_id         uuid,
  charged             boolean not null default false,        -- a budget is used once per operation, not per attempt
  ordering_key        text check (length(ordering_key) between 1 and 200),
  not_after           timestamptz,
  deliberate          boolean not null default false,        -- staged as distinct: a repetition on purpose
  value               numeric(20, 4),
  on_settled          text check (length(on_settled) between 3 and 200),
  trace_context       text check (length(trace_context) <= 200),
  status              text not null default 'prepared'
                      check (status in ('prepared', 'dispatching', 'confirmed', 'rejected', 'unknown')),
  outcome_code        text check (length(outcome_code) <= 60),
  reason              text check (length(reason) <= 2000),
  doubts              int not null default 0 check (doubts >= 0),
  fence               bigint not null default 0 check (fence >= 0),
  version             bigint not null default 1,             -- raised by every change; every verdict names the one it judged
  attempts            int not null default 0 check (attempts >= 0),
  first_sent_at       timestamptz,
  retry_until         timestamptz,                           -- last moment to dispatch again with the same key
  risk_accepted_at    timestamptz,
  -- Where a pending operation is, so that none can be lost: exactly these five places exist.
  handed_at           timestamptz,                           -- in the outbox or in the broker since
  claim_until         timestamptz,                           -- a worker holds it until
  claim_token         uuid,                                  -- of the request that claimed it: the same request finds it again
  due_at              timestamptz,                           -- wants work from then on
  waiting             text check (waiting in ('dependency', 'ordering', 'approval')),
  held                text check (length(held) between 1 and 2000),  -- only a person can go on; says why
  handovers           int not null default 0,                -- claims since the last progress
  put_off             text check (put_off in ('account_paused', 'breaker_open', 'account_busy')),   -- why due_at lies ahead; account_busy stays until it is through
  provider_request_id text check (length(provider_request_id) <= 300),
  result_id           text check (length(result_id) <= 300),
  result_version      text check (length(result_version) <= 300),
  evidence_at         timestamptz,
  delivery_status     text check (length(delivery_status) <= 60),
  created_at          timestamptz not null,
  updated_at          timestamptz not null,
  settled_at          timestamptz,

  constraint nothing_in_doubt_while_prepared check (status <> 'prepared' or doubts = 0 and first_sent_at is null),
  constraint rejected_without_doubt check (status <> 'rejected' or doubts = 0),
  constraint in_doubt_while_in_the_air check (status not in ('dispatching', 'unknown') or doubts >= 1),
  constraint dispatching_needs_a_claim check (status <> 'dispatching' or claim_until is not null and fence > 0),
  constraint confirmed_names_its_result check (status <> 'confirmed' or result_id is not null and evidence_at is not null),
  constraint final_rows_want_nothing check (
    status not in ('confirmed', 'rejected') or num_nonnulls(handed_at, claim_until, due_at, waiting, held) = 0),
  constraint pending_rows_are_somewhere check (
    status in ('confirmed', 'rejected') or num_nonnulls(handed_at, claim_until, due_at, waiting, held) >= 1),
  constraint settled_rows_say_when check ((status in ('confirmed', 'rejected')) = (settled_at is not null)),
  constraint generations_follow check ((generation > 0) = (succeeds is not null))
);

create unique index one_operation_per_effect on acuse.operation (tenant, effect_key, generation);
comment on index acuse.one_operation_per_effect is 'One operation per intent; it outlives payload and ledger.';

create unique index doubt_slot on acuse.operation (tenant, workflow_id, action, target, digest)
  where status in ('prepared', 'dispatching', 'unknown') and not deliberate and workflow_id is not null;
comment on index acuse.doubt_slot is
  'Within one workflow the same intent is in the air once: an agent that asks again under a new call id gets the same operation.';

create index doubtful_target on acuse.operation (tenant, workflow_id, action, target)
  where status in ('dispatching', 'unknown') and not deliberate and workflow_id is not null;
comment on index acuse.doubtful_target is
  'Read by stage before it writes. It holds no prepared row, so that two stages never conflict under SERIALIZABLE.';

create unique index one_of_a_chain_in_the_air on acuse.operation (tenant, provider, ordering_key)
  where status in ('dispatching', 'unknown') and ordering_key is not null;
create index chain on acuse.operation (tenant, provider, ordering_key, seq)
  where status = 'prepared' and ordering_key is not null;

-- Hot statements find pending rows only: the predicates name the columns that a final row leaves null, since a predicate on
-- status alone made the planner read 20,000 prepared rows to settle one.
create index handed on acuse.operation (handed_at) where handed_at is not null;
create index claimed on acuse.operation (claim_until) where claim_until is not null;
create index due on acuse.operation (due_at) where due_at is not null;
create index waiting on acuse.operation (seq) where waiting is not null;
create index held on acuse.operation (provider, seq) where held is not null;
create index unresolved on acuse.operation (provider, first_sent_at) where status in ('dispatching', 'unknown');
create index at_its_place on acuse.operation (provider, account, tenant, updated_at) where put_off = 'account_busy' and due_at is null;
comment on index acuse.at_its_place is 'Turned away by an account at its limit, and on the way back to it: a place is kept for one of each tenant.';
create index operation_event on acuse.operation (event_id) where event_id is not null;
create index operation_workflow on acuse.operation (tenant, workflow_id) where workflow_id is not null;
create index operation_approval on acuse.operation (approval_id) where approval_id is not null;

create table acuse.dependency (
  operation_id uuid not null references acuse.operation on delete cascade,
  needs        uuid not null,     -- no foreign key: a missing one must be seen as missing, and never frees anybody
  primary key (operation_id, needs),
  check (operation_id <> needs)
);
create index dependants on acuse.dependency (needs);

-- Rows that exist only until the relay has handed them to the broker.
create table acuse.outbox_message (
  id           bigint generated always as identity primary key,
  queue        text not null check (length(queue) between 1 and 100),
  -- Whose share of the queue it uses; '' is one share for all messages of hosts. Sorted by bytes, as the relay sorts.
  tenant       text collate "C" not null default '' check (length(tenant) <= 100),
  operation_id uuid,              -- work for an adapter ...
  message      jsonb,             -- ... or a message of the host: {"id", "actor", "args", "kwargs", "options"}
  available_at timestamptz not null,
  check (num_nonnulls(operation_id, message) = 1),
  constraint work_is_of_a_tenant check (operation_id is null or tenant <> ''),
  -- Of a queue of operations several rows go into one message: messages of hosts among them would pass its bound.
  constraint hosts_have_queues_of_their_own check (message is null or queue not like 'acuse.%'),
  -- Refused here, in the host's own transaction: a row that no relay can move would stand at the front of its queue for ever.
  constraint message_can_be_relayed check (message is null or (
    jsonb_typeof(message->'id') = 'string' and jsonb_typeof(message->'actor') = 'string' and jsonb_typeof(message->'args') = 'array'
    and jsonb_typeof(message->'kwargs') = 'object' and jsonb_typeof(message->'options') = 'object') is true)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index outbox_front on acuse.outbox_message (queue, available_at, id);
create index outbox_share on acuse.outbox_message (queue, tenant, available_at, id);
-- Whatever a look at a moment says, one tenant's backlog included: a share is read over its own index, not over the front.
alter table acuse.outbox_message alter column tenant set (n_distinct = 1000);
comment on index acuse.outbox_share is 'Read by the relay while more waits than the queue takes: then each tenant gets its share.';
create index outbox_operation on acuse.outbox_message (operation_id) where operation_id is not null;

-- The authorisation to dispatch: for exactly one action, target and digest, or for a pattern of targets with limits.
create table acuse.approval (
  id             uuid primary key,
  tenant         text not null check (length(tenant) between 1 and 100),
  action         text not null check (length(action) between 1 and 100),
  target         text check (length(target) between 1 and 200),
  target_prefix  text check (length(target_prefix) between 1 and 200),
  digest         bytea check (length(digest) = 32),                -- null: a pattern
  -- Of a request: the intent that it is for, and who hears what becomes of it.
  effect_key     text check (length(effect_key) between 1 and 200),
  workflow_id    text check (length(workflow_id) between 1 and 200),
  call_id        text check (length(call_id) between 1 and 200),
  requested_at   timestamptz not null,
  requested_by   text check (length(requested_by) between 1 and 200),
  request_reason text check (length(request_reason) <= 2000),
  callback       text check (length(callback) between 3 and 200),
  expiry_message bigint,                                           -- tells the host at expires_at, unless somebody decides before
  followed_by    uuid,                                             -- the next request for the same intent
  superseded_at  timestamptz,                                      -- that one came before anything was sent under this one
  decision       text check (decision in ('granted', 'denied')),   -- a person's; a timeout is none
  decided_by     text check (length(decided_by) between 1 and 200),
  decided_at     timestamptz,
  reason         text check (length(reason) <= 2000),
  expires_at     timestamptz,
  max_uses       int check (max_uses > 0),
  used           int not null default 0,
  sum_field      text check (length(sum_field) between 1 and 100), -- of the payload
  max_sum        numeric check (max_sum > 0),
  summed         numeric not null default 0,
  revoked_at     timestamptz,
  revoked_by     text check (length(revoked_by) between 1 and 200),
  revoke_reason  text check (length(revoke_reason) <= 2000),
  constraint revoked_by_somebody check ((revoked_at is null) = (revoked_by is null)),
  constraint decided_by_somebody check (num_nonnulls(decision, decided_by, decided_at) in (0, 3)),
  constraint exact_or_pattern check (case when digest is not null then target is not null and num_nonnulls(target_prefix, max_sum) = 0
                                          else num_nonnulls(target, target_prefix) <= 1 and effect_key is null and decision is not null end),
  constraint patterns_have_a_limit check (digest is not null or num_nonnulls(expires_at, max_uses, max_sum) > 0),
  constraint sums_name_their_field check ((sum_field is null) = (max_sum is null)),
  constraint superseded_by_another check (superseded_at is null or followed_by is not null),
  constraint budget_kept check (used >= 0 and (max_uses is null or used <= max_uses)),
  constraint sum_kept check (summed >= 0 and (max_sum is null or summed <= max_sum))
);
create unique index approval_of_an_intent on acuse.approval (tenant, effect_key) where effect_key is not null and followed_by is null;
comment on index acuse.approval_of_an_intent is 'One request stands for an intent; the drafts before it were followed.';
create index approval_undecided on acuse.approval (id) where decision is null and revoked_at is null and followed_by is null;

create table acuse.workflow (
  tenant       text not null,
  workflow_id  text not null,
  cancelled_at timestamptz not null,
  cancelled_by text not null check (length(cancelled_by) between 1 and 200),
  reason       text check (length(reason) <= 2000),
  primary key (tenant, workflow_id)
);
comment on table acuse.workflow is 'Workflows that were cancelled. One that is not here stands.';

create table acuse.flow_version (
  tenant       text not null,
  flow_version text not null,
  withdrawn_at timestamptz not null,
  withdrawn_by text not null check (length(withdrawn_by) between 1 and 200),
  reason       text check (length(reason) <= 2000),
  primary key (tenant, flow_version)
);

create table acuse.account (
  provider     text not null,
  account      text not null,
  paused_at    timestamptz,
  paused_until timestamptz,      -- null while paused: until a person resumes it
  paused_by    text,
  pause_reason text check (length(pause_reason) <= 2000),
  -- The breaker, shared by all workers.
  failures     int not null default 0 check (failures >= 0),   -- in a row
  opened_at    timestamptz,      -- since then nothing is sent but probes
  openings     int not null default 0 check (openings >= 0),   -- by how many failures of probes the rest was doubled, and one
  open_until   timestamptz,      -- from then on one probe is let through
  probe_id     uuid,             -- the operation that probes, under this fencing token ...
  probe_fence  bigint,
  probe_until  timestamptz,      -- ... for as long as its claim lasts: a dead prober does not block it for ever
  closed_at    timestamptz,      -- what was sent before says nothing of what came after
  -- Limits, if somebody set some.
  max_concurrent int check (max_concurrent > 0),
  max_per_second double precision check (max_per_second > 0),
  limited_by   text,
  limit_reason text check (length(limit_reason) <= 2000),
  tokens       double precision, -- what was left of a second's worth at tokens_at; null: all of it
  tokens_at    timestamptz,
  updated_at   timestamptz not null,
  primary key (provider, account),
  constraint breaker_says_until_when check (num_nonnulls(opened_at, open_until) in (0, 2) and (opened_at is null) = (openings = 0)),
  constraint probes_only_while_open check (
    num_nonnulls(probe_id, probe_fence, probe_until) in (0, 3) and (probe_id is null or opened_at is not null))
);

-- Tenants that found an account at its limit. A row is written under the lock of the account's, and only then.
create table acuse.account_share (
  provider     text not null,
  account      text not null,
  tenant       text not null,
  queued_until timestamptz,      -- where the last one of this tenant that found no room was sent to
  served_at    timestamptz,      -- when it was last let through while others waited
  primary key (provider, account, tenant)
);

create table acuse.incident (
  id           uuid primary key,
  operation_id uuid not null,
  kind         text not null check (length(kind) between 1 and 60),
  detail       jsonb not null default '{}',
  opened_at    timestamptz not null,
  closed_at    timestamptz,
  closed_by    text,
  close_reason text
);
create index incident_open on acuse.incident (opened_at) where closed_at is null;
create unique index incident_once on acuse.incident (operation_id, kind) where closed_at is null;

-- History, apart from the operation and by month of its UUIDv7, so that retention drops a partition and deletes no row.
create table acuse.payload (
  id   uuid not null,            -- of an operation or an event
  body bytea not null check (length(body) <= 300000),
  primary key (id)
) partition by range (id);
alter table acuse.payload alter column body set storage external;  -- hashed at every dispatch: read it whole, do not inflate it

create table acuse.attempt (
  operation_id        uuid not null,
  number              int not null check (number > 0),
  fence               bigint not null,
  basis               text not null check (basis in ('first', 'same_key', 'upsert', 'accepted_risk')),
  contract_version    text not null,
  account             text not null,
  provider_key        text not null,
  pin                 jsonb not null,       -- what the adapter needs to send the very same bytes again
  dispatched_at       timestamptz not null,
  deadline            interval not null,
  doubtful            boolean not null default true,
  settled_at          timestamptz,
  outcome             text check (outcome in ('accepted', 'refused', 'not_sent', 'ambiguous')),
  reason              text check (length(reason) <= 2000),
  needs_review        boolean not null default false,
  late                boolean not null default false,   -- its worker had lost the claim when it came back
  provider_request_id text,
  result_id           text,
  result_version      text,
  primary key (operation_id, number)
) partition by range (operation_id);

create table acuse.evidence (
  operation_id uuid not null,
  source       text not null check (source in ('receipt', 'lookup', 'webhook', 'operator')),
  source_id    text not null check (length(source_id) between 1 and 300),
  attempt      int not null,
  finding      text not null check (finding in ('found', 'target_state', 'absent', 'refused_before', 'unavailable')),
  detail       jsonb not null,
  started_at   timestamptz not null,
  recorded_at  timestamptz not null,
  version      bigint not null,
  primary key (operation_id, source, source_id)   -- the source's own unique id: told twice is known once
) partition by range (operation_id);

create table acuse.ledger (
  operation_id uuid not null,
  version      bigint not null,   -- the record version that this entry made
  at           timestamptz not null,
  kind         text not null,
  from_status  text,
  to_status    text not null,
  by           text not null check (by in ('host', 'worker', 'recover', 'evidence', 'operator')),
  actor        text,
  reason       text,
  outcome_code text,
  fence        bigint,
  attempt      int,
  primary key (operation_id, version)
) partition by range (operation_id);
create unique index ledger_once on acuse.ledger (operation_id, fence, kind) where kind in ('dispatched', 'settled', 'late');
comment on index acuse.ledger_once is 'A settle whose COMMIT reply was lost is recognised when it is repeated.';
