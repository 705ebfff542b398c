-- shares: which tenants have rows of a queue to move now, read by the relay while more waits than the queue takes.
--
-- Goes round from the tenant behind p_after to the end and from the start to p_after itself, and returns the first p_most of
-- them. A loose scan over (queue, tenant, available_at): one probe a tenant, whatever stands behind its first row.
--
-- p_known, sorted by bytes and '' first, are the tenants of which the caller has moved rows, each with the time to start from.
-- They are probed from there on, and others are looked for in the gaps between them: while an old snapshot is open somewhere,
-- a scan from the start would read every dead row of all that was moved. p_floor: where the others start.
--
-- No sort: planned over (queue, available_at), with a sort behind it, a probe would read the whole backlog to find nobody.
create function acuse.shares(p_queue text, p_after text, p_floor timestamptz, p_known text[], p_floors timestamptz[], p_most int)
  returns setof text language plpgsql stable
  set search_path = acuse, pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  v_now timestamptz := statement_timestamp(); v_top text collate "C" := repeat(chr(1114111), 101); v_after text collate "C" := p_after;
  v_at text collate "C"; v_next text collate "C"; v_share text collate "C"; v_i int; v_found int := 0;
begin
  for v_pass in case when p_after is null then 2 else 1 end .. 2 loop
    v_i := 1 + case when v_pass = 1 then (select count(*) from unnest(p_known) k where k collate "C" <= v_after) else 0 end;
    v_at := case when v_pass = 1 then v_after else '' end;
    while v_found < p_most loop
      v_next := coalesce(p_known[v_i], v_top);
      select tenant into v_share from outbox_message o where o.queue = p_queue and o.tenant > v_at and o.tenant < v_next
         and o.available_at >= p_floor and o.available_at <= v_now order by o.tenant limit 1;
      if found then
        v_at := v_share;
      else
        exit when v_next = v_top;
        v_at := v_next;
        v_share := (select o.tenant from outbox_message o where o.queue = p_queue and o.tenant = v_next
                      and o.available_at >= coalesce(p_floors[v_i], p_floor) and o.available_at <= v_now
                     order by o.available_at limit 1);
        v_i := v_i + 1;
      end if;
      exit when v_pass = 2 and v_at > v_after;
      continue when v_share is null;
      v_found := v_found + 1;
      return next v_share;
    end loop;
  end loop;
end $$;

create function acuse.others_wait(p_queue text, p_tenant text, p_floor timestamptz) returns boolean language plpgsql stable
  set search_path = acuse, pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
begin
  perform 1 from outbox_message o where o.queue = p_queue and o.tenant < p_tenant
     and o.available_at >= p_floor and o.available_at <= statement_timestamp() order by o.tenant limit 1;
  if found then return true; end if;
  perform 1 from outbox_message o where o.queue = p_queue and o.tenant > p_tenant
     and o.available_at >= p_floor and o.available_at <= statement_timestamp() order by o.tenant limit 1;
  return found;
end $$;
comment on function acuse.others_wait(text, text, timestamptz) is 'Whether rows of a queue wait that are of another tenant.';
