-- account: what all workers know together of an account: whether its provider answers (the breaker), and how much it takes.
--
-- What went well writes nothing here unless something was wrong before, so that an account's row is no bottleneck. Whoever
-- writes it has locked its operation before it.

create function acuse.breaker_failures() returns int language sql immutable
  set search_path = pg_catalog, pg_temp return 5;
comment on function acuse.breaker_failures() is 'After so many attempts in a row that found the provider away, the breaker opens.';

create function acuse.breaker_rest(p_openings int) returns interval language sql immutable
  set search_path = pg_catalog, pg_temp
  return least(interval '5 s' * (1 << least(greatest(p_openings, 1) - 1, 10)), interval '5 min');
comment on function acuse.breaker_rest(int) is 'How long nothing is sent: doubled by each probe that fails, and bounded.';

-- What an attempt's outcome says of its provider. p_health: up, down, or null for what concerns this operation, its account's
-- credentials or this worker alone. Calls that were in the air when the breaker opened or closed come back later: while it is
-- open only a probe moves it, and what was sent before it closed opens nothing.
create function acuse.account_told(o acuse.operation, p_fence bigint, p_sent_at timestamptz, p_health text) returns void
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare a account%rowtype; v_now timestamptz; v_probe boolean;
begin
  if p_health = 'down' then
    insert into account (provider, account, updated_at) values (o.provider, o.account, clock_timestamp()) on conflict do nothing;
  elsif not exists (select 1 from account t where (t.provider, t.account) = (o.provider, o.account)
                       and (t.failures > 0 or t.opened_at is not null)) then
    return;
  end if;
  select * into a from account where (provider, account) = (o.provider, o.account) for no key update;
  v_now := clock_timestamp();
  v_probe := coalesce(a.probe_id = o.id and a.probe_fence = p_fence, false);
  if p_health = 'up' and (a.opened_at is null or a.opened_at <= p_sent_at) then
    update account set failures = 0, opened_at = null, openings = 0, open_until = null, probe_id = null, probe_fence = null,
           probe_until = null, closed_at = case when a.opened_at is null then a.closed_at else v_now end, updated_at = v_now
     where (provider, account) = (o.provider, o.account);
  elsif p_health = 'down' and (v_probe or a.opened_at is null and (a.closed_at is null or a.closed_at < p_sent_at)) then
    a.failures := a.failures + 1;
    if a.failures >= acuse.breaker_failures() then
      a.openings := a.openings + 1;
      a.opened_at := coalesce(a.opened_at, v_now);
      a.open_until := v_now + acuse.breaker_rest(a.openings) * (0.9 + 0.2 * random());
    end if;
    update account set failures = a.failures, opened_at = a.opened_at, openings = a.openings, open_until = a.open_until,
           probe_id = null, probe_fence = null, probe_until = null, updated_at = v_now
     where (provider, account) = (o.provider, o.account);
  elsif v_probe then
    -- It probed nothing: another may.
    update account set probe_id = null, probe_fence = null, probe_until = null, updated_at = v_now
     where (provider, account) = (o.provider, o.account);
  end if;
end $$;

create type acuse.gated as (gate text, due_at timestamptz);

-- Why nothing is sent to an account now, whoever asks, and when to come again; null if something may be. Times are spread, so
-- that what waits does not come at once. Only read: dispatch judges it under lock, and it is asked before anything is prepared.
create function acuse.account_rest(a acuse.account, p_now timestamptz) returns acuse.gated language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  select case
    when a.paused_at is not null and a.paused_until is null then row('account_paused', null)::gated
    when a.paused_until > p_now then
      row('account_paused', a.paused_until + least((a.paused_until - p_now) * 0.1, interval '30 s') * random())::gated
    when a.open_until > p_now then
      row('breaker_open', a.open_until + greatest(acuse.breaker_rest(a.openings) * 0.25, interval '2 s') * random())::gated
    when a.probe_until > p_now then
      row('breaker_open', least(a.probe_until, p_now + interval '2 s') + interval '5 s' * random())::gated
    else row(null, null)::gated end;
$$;

-- Asked before a prepare: put an operation off whose account rests. Null if it may be prepared; dispatch judges again.
create function acuse.rest_with_account(p_id uuid, p_fence bigint) returns text language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare o operation%rowtype; v_rest acuse.gated; v_gate text;
begin
  select (acuse.account_rest(a, clock_timestamp())).* into v_rest from operation t
    join account a on (a.provider, a.account) = (t.provider, t.account) where t.id = p_id;
  if v_rest.gate is null then return null; end if;
  set local synchronous_commit = on;
  select * into o from operation where id = p_id for no key update;
  if o.fence is distinct from p_fence then return 'fenced'; end if;
  if o.status not in ('prepared', 'unknown') or o.claim_until is null then return 'moved'; end if;
  select gate into v_gate from acuse.not_dispatched(o, v_rest.gate, v_rest.due_at);
  return v_gate;
end $$;

-- A prepare that found the provider away counts as an attempt does that did, and it fails as a probe where one was due:
-- otherwise every operation would prepare at a provider that is away, and none would come to be the probe.
create function acuse.prepare_found_down(p_id uuid, p_fence bigint, p_took interval) returns void language plpgsql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
declare o operation%rowtype; v_now timestamptz;
begin
  select * into o from operation where id = p_id for no key update;
  if o.fence is distinct from p_fence or o.status not in ('prepared', 'unknown') or o.claim_until is null then return; end if;
  perform 1 from account a where (a.provider, a.account) = (o.provider, o.account) for no key update;
  v_now := clock_timestamp();
  -- It began before the breaker opened or closed: it says nothing of what is now.
  update account t set probe_id = o.id, probe_fence = o.fence, probe_until = v_now
   where (t.provider, t.account) = (o.provider, o.account) and t.opened_at is not null
     and t.open_until <= v_now - p_took and (t.probe_until is null or t.probe_until <= v_now);
  perform acuse.account_told(o, p_fence, v_now - p_took, 'down');
end $$;

-- How many places of an account at its limit are kept from an operation's tenant: one for each other tenant that was let
-- through longer ago and has an operation on the way back to it, for as long as that way may take. So of the tenants that
-- wait for an account, the one that was let through longest ago is next, whoever comes first and however often. shared: whether
-- another tenant waits at all. Read under the lock of the account's row.
create function acuse.places_kept(o acuse.operation, p_now timestamptz, out kept int, out shared boolean) language sql volatile
  set search_path = acuse, pg_catalog, pg_temp as $$
  select count(*) filter (where coalesce(s.served_at, '-infinity') < coalesce(mine.served_at, '-infinity')), count(*) > 0
    from account_share s left join account_share mine
           on (mine.provider, mine.account, mine.tenant) = (o.provider, o.account, o.tenant)
   where (s.provider, s.account) = (o.provider, o.account) and s.tenant <> o.tenant
     and exists (select 1 from operation w where (w.provider, w.account, w.tenant) = (s.provider, s.account, s.tenant)
                    and w.put_off = 'account_busy' and w.due_at is null and w.updated_at > p_now - interval '30 s');
$$;

-- Why an account takes nothing now, and when to come again; null if it does: then the probe or the place is taken. p_writes:
-- its row is locked for that.
create function acuse.account_gate(o acuse.operation, a acuse.account, p_writes boolean, p_now timestamptz) returns acuse.gated
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare v_rest acuse.gated; v_busy interval; v_tokens double precision; v_probes boolean; v_kept int; v_shared boolean;
begin
  v_rest := acuse.account_rest(a, p_now);
  if v_rest.gate is not null or num_nonnulls(a.opened_at, a.max_concurrent, a.max_per_second) = 0 then
    return v_rest;
  end if;
  if not p_writes then   -- it was set while the row was only shared: come at once, and with the right lock
    return row(case when a.opened_at is null then 'account_busy' else 'breaker_open' end, p_now)::gated;
  end if;
  v_probes := a.opened_at is not null;
  select k.kept, k.shared into v_kept, v_shared from acuse.places_kept(o, p_now) k;
  -- Their number cannot rise meanwhile: all that dispatch for this account wait for its row.
  if a.max_concurrent <= v_kept + (select count(*) from operation t
                                    where t.provider = o.provider and t.account = o.account and t.status = 'dispatching') then
    v_busy := interval '0.1 s' / a.max_concurrent;
  end if;
  if v_busy is null and a.max_per_second is not null then
    v_tokens := least(greatest(a.max_per_second, 1), coalesce(a.tokens
                  + extract(epoch from greatest(p_now - a.tokens_at, interval '0')) * a.max_per_second, 'infinity'));
    if v_tokens < 1 + v_kept then
      v_busy := interval '1 s' / a.max_per_second;
    end if;
  end if;
  if v_busy is not null then
    return acuse.account_queue(o, v_busy, p_now);
  end if;
  if v_shared then
    insert into account_share (provider, account, tenant, served_at) values (o.provider, o.account, o.tenant, p_now)
      on conflict (provider, account, tenant) do update set served_at = p_now;
  end if;
  if v_probes or v_tokens is not null then
    update account t set tokens = v_tokens - 1, tokens_at = case when v_tokens is not null then p_now end,
           probe_id = case when v_probes then o.id end, probe_fence = case when v_probes then o.fence end,
           probe_until = case when v_probes then o.claim_until end
     where (t.provider, t.account) = (o.provider, o.account);
  end if;
  return row(null, null)::gated;
end $$;

-- One place after the other, as far apart as the account takes them; a long queue comes spread over a minute instead. Each tenant
-- has a queue of its own, in which its places lie as much further apart as there are tenants with one: the first place of a
-- tenant is the next round, however many places another has.
create function acuse.account_queue(o acuse.operation, p_apart interval, p_now timestamptz) returns acuse.gated
  language plpgsql volatile set search_path = acuse, pg_catalog, pg_temp as $$
declare v_due timestamptz; v_mine timestamptz; v_others int;
begin
  select max(queued_until) filter (where tenant = o.tenant), count(*) filter (where tenant <> o.tenant and queued_until > p_now)
    into v_mine, v_others from account_share where (provider, account) = (o.provider, o.account);
  v_due := greatest(v_mine, p_now) + p_apart * (1 + v_others);
  if v_due > p_now + interval '1 min' then
    return row('account_busy', p_now + interval '1 min' * random())::gated;
  end if;
  insert into account_share (provider, account, tenant, queued_until) values (o.provider, o.account, o.tenant, v_due)
    on conflict (provider, account, tenant) do update set queued_until = excluded.queued_until;
  return row('account_busy', v_due + p_apart * random())::gated;
end $$;

create function acuse.limit_account(p_provider text, p_account text, p_concurrent int, p_per_second double precision, p_by text,
                                    p_reason text) returns void
  language sql volatile set search_path = acuse, pg_catalog, pg_temp as $$
  insert into account (provider, account, max_concurrent, max_per_second, limited_by, limit_reason, updated_at)
    values (p_provider, p_account, p_concurrent, p_per_second, p_by, p_reason, clock_timestamp())
  on conflict (provider, account) do update set
    max_concurrent = excluded.max_concurrent, max_per_second = excluded.max_per_second, limited_by = excluded.limited_by,
    limit_reason = excluded.limit_reason, tokens = null, tokens_at = null, updated_at = excluded.updated_at;
  delete from account_share where (provider, account) = (p_provider, p_account);
$$;
