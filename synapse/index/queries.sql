-- Named statements. {nids}, {audiences}, {prios} and {within} are filled with lists of our own integers, {conditions}
-- with comparisons of columns to values that are bound, nothing else.

-- fragment: left
e.seq > :floor and e.seq <= :cursor and e.aid <> :me and e.kind <> 1 and {heard}
  and not exists (select 1 from seen n where n.aid = :me and n.seq = e.seq)

-- fragment: fresh
e.seq > :floor and e.seq <= :cursor and e.aid <> :me and e.kind <> 1 and {asked} and {live} and {heard}
  and (:author is null or e.aid = :author)
  and (:tag is null or exists (select 1 from tags t where t.tag = :tag and t.seq = e.seq))
  and not exists (select 1 from seen n where n.aid = :me and n.seq = e.seq)

-- fragment: live
e.expires > :now and e.archived = 0 and {shown}

-- fragment: live_to_some
e.hidden <= :now and e.expires > :now and e.archived = 0

-- fragment: wanted
{standing} and e.prio in ({prios}) and e.kind in ({kinds}) and (:anywhere or e.nid in ({within}))
  and (:author is null or e.aid = :author)
  and (:tag is null or exists (select 1 from tags t where t.tag = :tag and t.seq = e.seq))

-- fragment: standing
(:archived = 1 and e.archived = 1 and {untainted} or :archived = 0 and {found})

-- fragment: untainted
e.hidden <= 4611686018427387904

-- fragment: found
e.expires > :now and (e.archived = 0 or e.kind = 1) and {shown}

-- fragment: live_then
e.expires > :now and e.archived = 0 and e.hidden <= :now and (e.hidden >= 0 or not exists (
  select 1 from fates f where f.seq = e.seq and f.hider <= :cursor and f.until > :now and f.lifted = 0 and {hides}))

-- fragment: shown
e.hidden <= :now and (e.hidden >= 0 or not exists (
  select 1 from fates f where f.seq = e.seq and f.until > :now and f.lifted = 0 and {hides}))

-- fragment: hides
exists (select 1 from entries e where {hider} and e.hidden <= 4611686018427387904
  and (f.until = 4611686018427387904 or e.hidden < 4611686018427387904 and e.archived = 0
    and (e.hidden >= 0 or not exists (select 1 from fates f where f.seq = e.seq and f.until = 4611686018427387904
      and f.lifted = 0 and exists (select 1 from entries e where {hider})))))

-- fragment: hider
e.seq = f.hider and (e.aid = :me or e.audience = 0 and e.nid in ({nids}) or e.audience in ({audiences}))

-- fragment: lapse
(select min(n.expires) from (select min(expires) as expires from entries where hidden = 0 and archived = 0 and expires > :now
  union all select min(expires) from entries indexed by entries_narrow where hidden < 0 and archived = 0 and expires > :now
  union all select min(expires) from entries indexed by entries_hidden
    where hidden > 0 and hidden < 4611686018427387904 and archived = 0 and expires > :now) n)

-- fragment: seen
(e.audience = 0 and e.nid in ({nids}) or e.aid = :me or e.audience in ({audiences}))

-- fragment: heard
(e.audience = 0 and e.nid in ({nids}) or e.audience in ({audiences}))

-- fragment: asked
e.nid in ({within}) and e.prio in ({prios})

-- fragment: weight
coalesce((select iif(max(iif({narrow}, 0, f.until)) < :never and max({narrow}), -1, max(f.until))
  from fates f left join entries h on h.seq = f.hider where f.seq = entries.seq and {stands}), 0)

-- fragment: narrow
(f.narrow or f.until < :never and coalesce(h.hidden, 0) < 0)

-- fragment: stands
(f.lifted = 0 and (f.until > :never or coalesce(h.hidden, 0) <= :never
  and (f.until = :never or h.hidden < :never and h.archived = 0)))

-- name: page_all
select e.seq, e.rec, e.rev from entries e not indexed
where e.seq > :floor and e.seq <= :cursor and e.prio in ({prios}) and {live} and {seen} and e.kind <> :unless
order by e.seq desc limit :limit

-- name: page_paged
select e.seq, e.rec, e.rev from entries e indexed by entries_pages
where e.kind <> 1 and e.seq > :floor and e.seq <= :cursor and e.prio in ({prios}) and {live} and {seen}
order by e.seq desc limit :limit

-- name: page_weighty
select e.seq, e.rec, e.rev from entries e indexed by entries_weighty
where e.seq > :floor and e.seq <= :cursor and e.prio < 2 and {live} and {seen} and e.kind <> :unless
order by e.seq desc limit :limit

-- name: page_critical
select e.seq, e.rec, e.rev from entries e indexed by entries_critical
where e.seq > :floor and e.seq <= :cursor and e.prio = 0 and {live} and {seen} and e.kind <> :unless
order by e.seq desc limit :limit

-- name: lane
select e.seq, e.rec, e.rev from entries e indexed by entries_lane
where e.nid = :nid and e.prio = :prio and e.seq > :floor and e.seq <= :cursor and {live} and {seen}
order by e.seq desc limit :limit

-- name: lane_own
select e.seq, e.rec, e.rev from entries e indexed by entries_author
where e.aid = :me and e.seq > :floor and e.seq <= :cursor and e.prio in ({prios}) and {live} and e.kind <> :unless
order by e.seq desc limit :limit

-- name: lane_addressed
select e.seq, e.rec, e.rev from entries e indexed by entries_audience
where e.audience > 0 and e.audience in ({audiences}) and e.seq > :floor and e.seq <= :cursor
  and e.prio in ({prios}) and {live} and e.kind <> :unless
order by e.seq desc limit :limit

-- name: page_filtered
select e.seq, e.rec, e.rev from entries e not indexed
where e.seq > :floor and e.seq <= :cursor and {asked}
  and e.archived = :archived and (:archived = 1 and {untainted} or e.expires > :now and {shown})
  and (:author is null or e.aid = :author)
  and (:tag is null or exists (select 1 from tags t where t.tag = :tag and t.seq = e.seq))
  and {seen}
order by e.seq desc limit :limit

-- name: every
select seq, rec, rev from entries where seq <= :cursor order by seq

-- name: criticals
select seq, rec, rev from entries where seq <= :cursor and prio = 0 and at >= :at order by seq

-- name: tellings
select seq, at, kind, by, fields from acts
where seq <= :cursor and kind in ('delivery', 'shown') and at >= :at order by seq

-- name: count
select count(*) from entries e
where e.seq > :floor and e.seq <= :cursor and {asked} and {seen}
  and e.archived = :archived and (:archived = 1 and {untainted} or e.expires > :now and {shown})
  and (:author is null or e.aid = :author)
  and (:tag is null or exists (select 1 from tags t where t.tag = :tag and t.seq = e.seq))

-- name: count_since
select count(*) from entries e not indexed
where e.kind <> 1 and e.seq > :floor and e.seq <= :cursor and {live} and {seen}

-- name: census
select sum(e.live * {heard}), 0, 0 from lanes e where {asked}
union all  -- expired since
select -sum({heard}), 0, 0 from entries e indexed by entries_expires
where e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept) and e.expires <= :now and {asked}
union all  -- or not yet, by a clock that was set back
select sum({heard}), 0, 0 from entries e indexed by entries_expires
where e.hidden = 0 and e.archived = 0 and e.expires <= (select at from swept) and e.expires > :now and {asked}
union all  -- hidden for a time that is over
select sum({heard}), 0, 0 from entries e indexed by entries_hidden
where e.hidden > 0 and e.hidden < 4611686018427387904 and {live} and {asked}
union all  -- replaced for some of its readers
select sum({heard}), 0, 0 from entries e indexed by entries_narrow where e.hidden < 0 and {live} and {asked}
union all  -- taken in since the names were learned
select -sum({heard}), 0, 0 from entries e not indexed where e.seq > :cursor and {live} and {asked}
union all
select 0, count(*), sum({heard}) from entries e indexed by entries_author
where e.aid = :me and e.seq <= :cursor and {live} and {asked}

-- name: unread
select count(*), {lapse},
  (select cursor from shown where aid = :me),
  (select sum(e.live) from lanes_left e where e.aid = :me and {heard}),
  (select count(*) from seen n join entries e on e.seq = n.seq where n.aid = :me
    and n.seq > (select cursor from shown where aid = :me) and e.aid <> :me and e.kind <> 1 and {live} and {heard})
from entries e not indexed
where e.seq > (select cursor from shown where aid = :me) and e.aid <> :me and e.kind <> 1 and {live} and {heard}

-- name: unread_paged
select count(*), {lapse},
  (select cursor from shown where aid = :me),
  (select sum(e.live) from lanes_left e where e.aid = :me and {heard}),
  (select count(*) from seen n join entries e on e.seq = n.seq where n.aid = :me
    and n.seq > (select cursor from shown where aid = :me) and e.aid <> :me and e.kind <> 1 and {live} and {heard})
from entries e indexed by entries_pages
where e.seq > (select cursor from shown where aid = :me) and e.aid <> :me and e.kind <> 1 and {live} and {heard}

-- name: left_since
select -count(*) from entries e indexed by entries_expires  -- expired since
where e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept) and e.expires <= :now and {left}
union all  -- or not yet, by a clock that was set back
select count(*) from entries e indexed by entries_expires
where e.hidden = 0 and e.archived = 0 and e.expires <= (select at from swept) and e.expires > :now and {left}
union all  -- hidden for a time that is over
select count(*) from entries e indexed by entries_hidden
where e.hidden > 0 and e.hidden < 4611686018427387904 and {live} and {left}
union all  -- replaced for some of its readers
select count(*) from entries e indexed by entries_narrow where e.hidden < 0 and {live} and {left}

-- name: fresh
select e.seq, e.rec, e.rev from entries e not indexed where {fresh}
order by e.prio, iif(e.prio = 0, (select -json_extract(t.head, '$.authority') from texts t where t.rec = e.rec), 0), e.seq
limit :limit

-- name: fresh_counts
select sum(e.prio = 0), sum(e.prio = 1), sum(e.prio = 2) from entries e not indexed where {fresh}

-- name: seen_between
select seq from seen where aid = :me and seq between :first and :last and mark <= :cursor

-- name: written_lately
select count(*), sum(e.prio = 0), sum(e.bytes), min(e.at), min(iif(e.prio = 0, e.at, null))
from entries e indexed by entries_author
where e.aid = (select aid from authors where name = :author) and e.seq > :floor
  and not exists (select 1 from texts t where t.rec = e.rec and instr(t.head, '"trust":"unverified"') > 0)

-- name: floor_of
select seq - 1 from entries where at >= :at order by at limit 1

-- name: version
select (select max(nid) from namespaces), (select max(aid) from authors), (select max(num) from audiences),
  (select max(seq) from agents), (select count(*) from agents), (select max(seq) from acts where kind in ('review', 'undo', 'taint')),
  (select count(*) from voids), (select max(seq) from acts where kind = 'key')

-- name: keys
select seq, fields from acts where kind = 'key' and by = 'operator' order by seq

-- name: all_voids
select seq from voids

-- name: rows
select e.seq, e.at, e.expires, e.archived, t.id, t.head, t.body
from entries e join texts t on t.rec = e.rec where e.seq in ({seqs})

-- name: row
select e.seq, e.at, e.expires, e.archived, t.id, t.head, t.body
from entries e join texts t on t.rec = e.rec where e.seq = :seq

-- name: texts
select id, head, body from texts where rec = :rec

-- name: peers
select t.id from disputes d join entries e on e.seq = d.peer join texts t on t.rec = e.rec
where d.seq = :seq and {live} and {seen} order by d.peer

-- name: in_dispute
select peer from disputes where seq = :seq

-- name: disputed_between
select distinct seq from disputes where seq between :first and :last

-- name: hidden
select hidden from entries where seq = :seq

-- name: id_of
select rec, seq from ids where id = :id

-- name: bodies
select i.id, t.body from json_each(:ids) one join ids i on i.id = one.value
join texts t on t.rec = i.rec

-- name: minted
select max(cast(substr(id, length(:start) + 1) as integer)) from ids where id >= :start and id < :end

-- name: ids_alike
select id from ids where id >= :start and id < :end order by id

-- name: names
select t.id, t.path from namespaces n join entries e on e.nid = n.nid join texts t on t.rec = e.rec
where n.name = :folder and e.prio in (0, 1, 2) and e.seq > :floor and e.archived = 0 and e.kind in ({kinds})

-- name: names_in_thread
select t.id, t.path from threads h join messages m on m.tid = h.tid join entries e on e.seq = m.seq
join texts t on t.rec = e.rec where h.id = :thread and m.seq > :floor and e.archived = 0

-- name: refiled
select 1 from acts where seq > :floor and kind in ('archive', 'restore', 'undo', 'repair', 'void', 'taint', 'untaint') limit 1

-- name: place_of
select case when s.rec is not null then 'staged' when i.seq is null then 'gone'
  when e.archived then 'archived' else 'live' end
from ids i left join staged s on s.rec = i.rec left join entries e on e.seq = i.seq where i.id = :id

-- name: last_namespace
select coalesce(max(nid), 0) from namespaces

-- name: covered
select nid from namespaces where ({names}) and nid <= :last limit :limit

-- name: nid_of
select nid from namespaces where name = :name

-- name: blockers
select n.name, a.name, count(*) from entries e join namespaces n using (nid) join authors a using (aid)
where e.prio = 0 and e.at >= :since and n.name glob 'blockers/*' group by n.name, a.name

-- name: lane_counts
select coalesce(sum(e.n * (e.nid <> :mail)), 0), coalesce(sum(e.n * (e.nid <> :mail and e.nid in ({nids}))), 0),
  coalesce(sum(e.n * (e.nid = :mail)), 0)
from lanes e where e.prio in ({prios})

-- name: aid_of
select aid from authors where name = :name

-- name: audiences
select num, name from audiences

-- name: keyed_entries
select e.seq, e.rec, e.rev, {live}, k.fields from keyed k join entries e on e.seq = k.seq
where k.key = :key order by e.seq desc

-- name: conditional
select e.seq from entries e join texts t on t.rec = e.rec
where e.seq > :floor and e.kind = 0 and instr(t.head, '"when":') > 0 order by e.seq

-- name: standing
select e.seq, e.rec, e.rev from entries e where e.seq in ({seqs}) and {live} order by e.seq

-- name: next_change
select min(n.at) from (select * from (select hidden as at from entries indexed by entries_hidden
    where hidden > max(:now, 0) and hidden > 0 and hidden < 4611686018427387904 order by hidden limit 1)
  union all select {lapse}
  union all select f.until from entries e indexed by entries_narrow cross join fates f on f.seq = e.seq
    where e.hidden < 0 and f.until > :now and f.until < 4611686018427387904) n

-- name: drop_agent
delete from agents where id = ?

-- name: staged
select s.rec, s.at from staged s where not exists (select 1 from fates f where f.seq = s.rec and f.lifted = 0)
order by s.rec

-- name: agent
select fields from agents where id = :id

-- name: agents
select id, fields from agents order by id

-- name: last_active
select agent, at from active order by agent

-- name: shown
select floor, cursor from shown where aid = :me

-- name: trace
select at, kind from acts where seq = :seq and kind <> 'entry'
union all select a.at, t.id from acts a join texts t on t.rec = a.seq where a.seq = :seq and a.kind = 'entry'
union all select e.at, t.id from entries e join texts t on t.rec = e.rec where e.seq = :seq and e.rec = e.seq limit 1

-- name: lost_between
select min(at), max(at) from (select at from acts where seq > :floor
  union all select at from entries where seq > :floor)

-- name: first_once
select seq from once where by = :by and key = :key

-- name: keyed
select seq, fields from keyed where key = :key order by seq

-- name: keyed_since
select k.seq, a.at, a.by, k.fields from keyed k join acts a on a.seq = k.seq
where k.key = :key and k.seq > :floor and a.at >= :at order by k.seq desc limit :limit

-- name: touched
select a.seq, json_object() from refs r join acts a on a.seq = r.seq
where r.id = :id and a.kind in ('approve', 'vouch', 'resolve', 'archive', 'restore', 'undo', 'taint', 'untaint')
union select h.seq, json_object() from heirs h join ids i on i.seq = h.old where i.id = :id
  and not exists (select 1 from fates f where f.seq = h.old and f.hider = h.seq and f.narrow)
order by 1

-- name: acts
select a.seq, a.at, a.kind, a.by, (select t.id from texts t where t.rec = a.seq), a.fields from acts a
where a.seq < :before and (:by is null or a.by = :by) and a.at >= :at
  and (:ref is null or a.seq in (select seq from refs where id = :ref))
union all
select e.seq, e.at, 'entry', w.name, t.id, t.head from entries e join authors w using(aid) join texts t using(rec)
where e.rec = e.seq and e.seq < :before and (:by is null or w.name = :by) and e.at >= :at
  and (:ref is null or t.id = :ref or t.rec in (select seq from refs where id = :ref)
    or e.seq in (select h.seq from heirs h join ids i on i.seq = h.old where i.id = :ref
      union select f.hider from fates f join ids i on i.seq = f.seq where i.id = :ref))
order by 1 desc limit :limit

-- name: told
select a.seq, a.at, a.kind, a.by, (select t.id from texts t where t.rec = a.seq), a.fields, null from acts a
where a.seq > :floor and a.at >= :at
union all
select e.seq, e.at, 'entry', w.name, t.id, t.head, t.body from entries e not indexed join texts t on t.rec = e.rec
join authors w on w.aid = e.aid where e.rec = e.seq and e.seq > :floor and e.at >= :at
order by 1

-- name: act_at
select at from acts where seq = :seq

-- name: fate
select f.reason, coalesce(t.id, a.by, ''), f.until
from entries e join fates f on f.seq = e.seq
left join entries h on h.seq = f.hider left join texts t on t.rec = h.rec left join acts a on a.seq = f.hider
where e.seq = :seq and f.until > :now and {stands} and (not {narrow} or {hides})
order by f.until desc, f.hider limit 1

-- name: search_author
select e.seq from entries e indexed by entries_author
where e.aid in ({aids}) and e.seq > :floor and e.seq <= :ceiling and {wanted} and {seen}
order by e.seq desc limit :limit

-- name: search_rows
select e.seq, e.rec, e.rev, e.aid, e.at, e.prio, e.kind, e.seq > :floor and e.seq <= :ceiling and {wanted}
from json_each(:seqs) j cross join entries e on e.seq = j.value where {standing} and {seen}

-- name: search_together
select e.seq, e.rec, e.rev from words cross join entries e on e.seq = words.rowid
where words match :words and words.rowid <= :cursor and {live} and {seen}
order by words.rowid desc limit :limit

-- name: holding
select rowid from words where words match :word and rowid > :floor

-- name: long_since
select seq, words from long where seq > :floor

-- name: weighed_since
select seq, prio from entries indexed by entries_weighty where seq > :floor and prio < 2
union all select e.seq, e.prio from entries_before b join entries e on e.seq = b.seq where b.record > :floor

-- name: lengths
select l.seq, l.words from json_each(:seqs) j cross join long l on l.seq = j.value

-- name: around
select
  (select group_concat(seq) from (select seq from messages where tid = m.tid and seq <= m.seq order by seq desc
    limit :reach + 1)),
  (select group_concat(seq) from (select seq from messages where tid = m.tid and seq > m.seq order by seq limit :reach))
from json_each(:seqs) j cross join messages m on m.seq = j.value

-- name: last_entry
select max(seq) from entries

-- name: ceiling_of
select seq from entries where at < :at order by at desc, seq desc limit 1

-- name: authors
select aid, name from authors

-- name: unworded
select e.seq, t.body, t.head from entries e join texts t on t.rec = e.rec where e.seq > :floor order by e.seq limit :limit

-- name: word
insert into words(rowid, text) values(?, ?)

-- name: put_long
insert or replace into long(seq, words) values(?, ?)

-- name: embeddable
select e.seq, t.head, t.body from entries e join texts t on t.rec = e.rec
where e.seq > :floor and e.seq <= :cursor and (e.archived = 0 or e.kind = 1) and e.hidden < :never
order by e.seq limit :limit

-- name: embeddable_count
select count(*) from entries e where e.seq > :floor and (e.archived = 0 or e.kind = 1) and e.hidden < :never

-- name: token_counts
select digest, n from tokens where encoding = ? and digest in ({digests})

-- name: keep_token
insert or ignore into tokens(digest, encoding, n) values(?, ?, ?)

-- name: get_meta
select value from meta where key = :key

-- name: set_meta
insert into meta(key, value) values(:key, :value) on conflict(key) do update set value = excluded.value

-- name: put_entry
insert into entries(seq, rec, at, nid, aid, prio, audience, expires, hidden, kind, bytes)
values(?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)

-- name: put_message
insert into messages(seq, tid, parent) values(?, ?, ?)

-- name: put_thread
insert or ignore into threads(id) values(?)

-- name: put_lane
insert into lanes(nid, prio, audience, n, live) values(?, ?, ?, ?, ?)
on conflict do update set n = n + excluded.n, live = live + excluded.live

-- name: sweep
insert into lanes select e.nid, e.prio, e.audience, 0, -count(*) from entries e indexed by entries_expires
where e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept) and e.expires <= :at group by 1, 2, 3
on conflict do update set live = live + excluded.live

-- name: swept
select at from swept

-- name: put_taking
update taking set seq = ?

-- name: put_swept
update swept set at = :at

-- name: put_text
insert into texts(rec, id, path, head, body) values(?, ?, ?, ?, ?)

-- name: put_id
insert or ignore into ids(id, rec, seq) values(?, ?, ?)

-- name: put_tag
insert or ignore into tags(tag, seq) values(?, ?)

-- name: put_topic
insert into topics(nid, topic, seq) values(?, ?, ?)

-- name: put_heir
insert or ignore into heirs(old, seq) values(?, ?)

-- name: put_act
insert into acts(seq, at, kind, by, fields) values(?, ?, ?, ?, ?)

-- name: put_ref
insert or ignore into refs(id, seq) values(?, ?)

-- name: put_agent
insert into agents(id, seq, fields) values(?, ?, ?) on conflict(id) do update set seq = excluded.seq, fields = excluded.fields

-- name: put_active
insert into active(agent, at) values(?, ?) on conflict(agent) do update set at = excluded.at

-- name: put_shown
insert into shown(aid, floor, cursor) values(?, ?, ?)
on conflict do update set floor = excluded.floor, cursor = excluded.cursor

-- name: put_seen
insert or ignore into seen(aid, seq, mark) select :aid, i.seq, :mark from ids i
where i.id = :id and i.seq < :mark and i.seq > coalesce((select floor from shown where aid = :aid), 0)

-- name: put_left
insert into lanes_left select :aid, e.nid, e.audience,
  sum(e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept)) from entries e not indexed
where e.seq > :after and e.seq <= :cursor and e.aid <> :aid and e.kind <> 1
  and not exists (select 1 from seen n where n.aid = :aid and n.seq = e.seq) group by e.nid, e.audience
on conflict do update set live = live + excluded.live

-- name: drop_left
delete from lanes_left where aid = :aid

-- name: drop_seen
delete from seen where aid = :aid and seq <= :floor

-- name: sweep_left
insert into lanes_left select s.aid, e.nid, e.audience, -count(*) from entries e indexed by entries_expires cross join shown s
where e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept) and e.expires <= :at and e.kind <> 1
  and e.aid <> s.aid and e.seq > s.floor and e.seq <= s.cursor
  and not exists (select 1 from seen n where n.aid = s.aid and n.seq = e.seq) group by 1, 2, 3
on conflict do update set live = live + excluded.live

-- name: run
select fields, agent, seq, at, ended_at from runs where id = :id

-- name: runs
select fields, agent, seq, at, ended_at from runs where {conditions} order by seq desc limit :limit

-- name: runs_count
select count(*) from runs where {conditions}

-- name: tops
select id from runs r where parent is null or not exists (select 1 from runs p where p.id = r.parent)
order by seq desc limit :limit

-- name: runs_below
with recursive below(id) as (
  select value from json_each(:ids) union select r.id from below b cross join runs r on r.parent = b.id)
select r.fields, r.agent, r.seq, r.at, r.ended_at from below b cross join runs r on r.id = b.id order by r.seq desc

-- name: run_times
select * from (
  select id, agent, parent, null as status, at from runs where project = :project
  union all select id, agent, parent, coalesce(status, ''), ended_at from runs where project = :project)
where at >= :floor and (:agent is null or agent = :agent) and (at, id) < (:at, :id) order by at desc, id desc limit :limit

-- name: deliveries
select entry, agent, run, epoch, state, at from deliveries where {conditions} order by at desc, entry limit :limit

-- name: run_edges
select id, parent, agent, project, at, ended_at from runs order by seq

-- name: put_run
insert into runs(id, seq, at, agent, project, parent, root, state, status, epoch, holder, ended_at, fields)
values(:run, :seq, :at, :agent, :project, :parent, :root, :state, :status, :epoch, :holder, :ended_at, :fields)
on conflict(id) do update set project = excluded.project, parent = excluded.parent, root = excluded.root,
  state = excluded.state, status = excluded.status, epoch = excluded.epoch, holder = excluded.holder,
  ended_at = case when excluded.state = 'running' then null else coalesce(ended_at, excluded.ended_at) end,
  fields = excluded.fields

-- name: put_delivery
insert or ignore into deliveries(entry, agent, run, epoch, state, at) values(?, ?, ?, ?, ?, ?)

-- name: put_foreign
insert into foreign_records(seq, kind, by, id, alias) values(?, ?, ?, ?, ?)

-- name: foreign_records
select seq from foreign_records order by seq

-- name: foreign_holder
select seq from foreign_records where id = :id or alias = :id limit 1

-- name: put_once
insert or ignore into once(by, key, seq) values(?, ?, ?)

-- name: put_keyed
insert into keyed(key, seq, fields) values(?, ?, ?)

-- name: put_staged
insert into staged(rec, at) values(?, ?)

-- name: unstage
delete from staged where rec = ?

-- name: put_void
insert or ignore into voids(seq) values(?)

-- name: is_void
select 1 from voids where seq = ?

-- name: settle_id
update ids set seq = ? where rec = ?

-- name: put_fate
insert into fates(seq, hider, reason, until, narrow) values(?, ?, ?, ?, ?)
on conflict(seq, hider) do update set reason = excluded.reason, until = excluded.until, narrow = excluded.narrow
where excluded.until > until

-- name: drop_fates
delete from fates where seq = :seq and until < :never

-- name: lift
update fates set lifted = :lifted where hider = :seq

-- name: held_by
select f.seq, t.id, f.until >= :never, e.seq is null from fates f left join entries e on e.seq = f.seq
join texts t on t.rec = coalesce(e.rec, f.seq) where f.hider = :seq and f.lifted = :lifted order by f.seq

-- name: weigh
update entries set hidden = {weight}
where seq = :seq

-- name: weigh_below
update entries set hidden = {weight}
where seq in (select seq from fates where hider = :seq)

-- name: taint
insert into fates(seq, hider, reason, until) select coalesce(i.seq, i.rec), ?, 'tainted', ? from ids i where i.id = ?
on conflict(seq, hider) do update set reason = excluded.reason, until = excluded.until

-- name: taint_as_source
insert or ignore into fates(seq, hider, reason, until) select :seq, f.hider, f.reason, f.until
from ids i join fates f on f.seq = coalesce(i.seq, i.rec)
where i.id = :id and f.until > :never and f.lifted = 0

-- name: naming
select coalesce(i.seq, i.rec), t.id, t.head from texts t join ids i on i.id = t.id where instr(t.head, :id) > 0

-- name: tainters
select distinct hider from fates where seq = :seq and until > :never and lifted = 0

-- name: untaint
update fates set lifted = 1 where until > :never and seq = (select coalesce(i.seq, i.rec) from ids i where i.id = :id)

-- name: settle_taint
update or ignore fates set seq = :seq where seq = :rec and until > :never

-- name: weigh_second
update entries set hidden = {weight}
where seq in (select d.seq from fates d where d.hider in (select seq from fates where hider = :seq))

-- name: released
select distinct d.seq from fates d join entries e on e.seq = d.seq
where d.hider in (select seq from fates where hider = :seq) and d.until <= :never and e.hidden < :never order by d.seq

-- name: released_by
select distinct d.seq from fates d join entries e on e.seq = d.seq
where d.hider = :seq and d.until <= :never and e.hidden < :never order by d.seq

-- name: end_disputes_of
delete from disputes where seq in (select seq from fates where hider = :seq) or peer in (select seq from fates where hider = :seq)

-- name: any_taint
select 1 from acts where kind in ('review', 'undo', 'taint') and kind = 'taint' limit 1

-- name: is_tainted
select 1 from ids i join fates f on f.seq = coalesce(i.seq, i.rec)
where i.id = :id and f.until > 4611686018427387904 and f.lifted = 0 limit 1

-- name: tainted_by
select a.seq, a.at, a.kind, a.by, null, a.fields from ids i join fates f on f.seq = coalesce(i.seq, i.rec)
join acts a on a.seq = f.hider where i.id = :id and f.until > :never and f.lifted = 0 order by a.seq

-- name: by_author
select t.id from entries e join texts t on t.rec = e.rec where e.aid = :aid and e.at >= :at
union all
select t.id from staged s join texts t on t.rec = s.rec where s.at >= :at and json_extract(t.head, '$.author') = :author

-- name: made_of
select t.rec, t.id, t.head, coalesce(e.at, a.at) from texts t left join entries e on e.seq = t.rec
left join acts a on a.seq = t.rec
where instr(t.head, '"derived_from":') > 0 or instr(t.head, '"run":') > 0 or instr(t.head, '"cites":') > 0
  or instr(t.head, '"alias":') > 0 or instr(t.head, '"topic":"plan"') > 0
order by t.rec

-- name: exposed
select d.entry, d.run, d.agent, min(d.at) from json_each(:ids) j cross join deliveries d on d.entry = j.value
where d.state in ('offered', 'rendered', 'acked') group by d.entry, d.run, d.agent

-- name: shown_to
select distinct a.name from json_each(:seqs) j cross join authors a
where exists (select 1 from seen n where n.aid = a.aid and n.seq = j.value) order by a.name

-- name: put_dispute
insert or ignore into disputes(seq, peer) values(?, ?)

-- name: end_disputes
delete from disputes where seq = :seq or peer = :seq

-- name: set_archived
update entries set archived = ?, rev = rev + 1 where seq = ?

-- name: put_vouched
update texts set head = ? where rec = ?

-- name: revise
update entries set prio = ?, bytes = ?, rev = rev + 1 where seq = ?

-- name: redact
update texts set body = :body where rec = :rec

-- name: rivals_by_topic
select t.seq from topics t join entries e on e.seq = t.seq
where t.nid = :nid and t.topic = :topic and e.hidden < :never and e.archived = 0 and e.expires > :at and t.seq <> :seq

-- name: rivals_by_heirs
select h.seq from heirs h join entries e on e.seq = h.seq
where h.old = :old and e.hidden < :never and e.archived = 0 and e.expires > :at and h.seq <> :seq

-- name: put_namespace
insert or ignore into namespaces(name) values(?)

-- name: put_author
insert or ignore into authors(name) values(?)

-- name: put_audience
insert or ignore into audiences(name) values(?)

-- name: outdone
select t.id, f.reason, coalesce(h.id, a.by, ''), min(f.hider) from entries e join texts t on t.rec = e.rec
join fates f on f.seq = e.seq and f.until = e.hidden and f.lifted = 0
left join entries w on w.seq = f.hider left join texts h on h.rec = w.rec left join acts a on a.seq = f.hider
where e.archived = 0 and e.hidden > :now and e.hidden >= e.expires and e.hidden > 0 and {untainted}
group by e.seq order by e.seq

-- name: lapsed
select e.seq, t.id, e.prio, n.name from entries e join texts t on t.rec = e.rec join namespaces n on n.nid = e.nid
where e.archived = 0 and e.expires <= :now and e.hidden < :never order by e.seq

-- name: comparable
select e.seq, e.nid, e.prio, e.audience, e.aid in (select aid from authors where name = :own), t.body
from entries e join texts t on t.rec = e.rec
where (e.nid in (select nid from entries where seq > :floor and archived = 0 and aid not in (select aid from authors where name = :own))
    or e.seq > :floor and e.aid in (select aid from authors where name = :own))
  and e.prio > 0 and e.kind = 0 and {live_to_some} and e.hidden >= 0
  and not exists (select 1 from disputes d where d.seq = e.seq)
order by e.seq

-- name: mergeable
select e.seq, e.rec, e.rev from entries e
where e.nid in (select nid from entries where seq > :floor and archived = 0 and aid not in (select aid from authors where name = :own))
  and e.prio > 0 and e.kind = 0 and {live_to_some} and e.hidden >= 0
  and not exists (select 1 from disputes d where d.seq = e.seq)
order by e.seq desc limit :limit

-- name: brought_back
select seq, kind, fields, by from acts where kind in ('restore', 'undo')

-- name: approvals_of
select a.seq, a.at, a.kind, a.by, null, a.fields from refs r join acts a on a.seq = r.seq
where r.id = :id and a.kind = 'approve' order by a.seq

-- name: act_of
select a.seq, a.at, a.kind, a.by, (select t.id from texts t where t.rec = a.seq), a.fields from acts a
where a.seq = :seq
union all
select e.seq, e.at, 'entry', w.name, t.id, t.head from entries e join authors w using(aid) join texts t using(rec)
where e.rec = :seq and e.seq = :seq

-- name: last_ruling
select * from (select a.seq, a.at, a.kind, a.by, null, a.fields from acts a indexed by acts_of_rulings
  where a.kind in ('archive', 'restore', 'resolve', 'approve', 'reject', 'vouch', 'undo', 'review', 'agent', 'settings',
  'taint')
    and (:all or a.by = :by) order by a.seq desc limit 1)
union all
select * from (select e.seq, e.at, 'entry', w.name, t.id, t.head from authors w
  join entries e indexed by entries_author on e.aid = w.aid join texts t using(rec)
  where (w.name = :by or :all and w.name = 'consolidator') and e.seq = e.rec order by e.seq desc limit 1)
order by 1 desc limit 1

-- name: filings_of
select a.seq, a.kind, a.fields, a.by from refs r join acts a on a.seq = r.seq
where r.id = :id and a.kind in ('archive', 'restore', 'undo') order by a.seq

-- name: weights
select e.nid, e.bytes, {live_to_some} from entries e not indexed where e.archived = 0 and e.kind = 0

-- name: namespaces
select nid, name from namespaces

-- name: sized
select e.seq, t.id, n.name, e.prio, e.at, e.bytes,
  (select count(*) from deliveries d where d.entry = t.id and d.state = 'rendered' and d.agent <> w.name),
  exists (select 1 from disputes p where p.seq = e.seq) or exists (select 1 from fates f join entries l on l.seq = f.seq
    where f.hider = e.seq and f.until < :never and l.archived = 0 and l.expires > :now)
  or e.hidden < 0 and exists (select 1 from fates f join entries h on h.seq = f.hider
    where f.seq = e.seq and f.until > :now and f.until < :never and {stands})
from entries e join texts t on t.rec = e.rec join namespaces n on n.nid = e.nid join authors w on w.aid = e.aid
where e.nid in ({within}) and e.kind = 0 and {live_to_some}

-- name: long
select t.id, length(cast(t.body as blob)) from entries e join texts t on t.rec = e.rec
where e.seq > :floor and e.archived = 0 and e.kind = 0 and e.bytes > :size and length(cast(t.body as blob)) > :size
order by e.seq

-- name: received
select max(at) from entries where seq <= :seq

-- name: counts_by_author
select w.name, count(*) from entries e join authors w on w.aid = e.aid
where {live_to_some} and e.kind <> 1 group by w.aid order by count(*) desc, w.name

-- name: busy
select w.name, e.at / :day as day, count(*) from entries e join authors w on w.aid = e.aid
where e.at >= :at group by w.name, day order by day, w.name

-- name: lived
select e.seq, t.id, w.name, e.expires, t.head from entries e join texts t on t.rec = e.rec join authors w on w.aid = e.aid
where e.expires > :since and e.expires <= :until and e.kind = 0 and w.name <> :night
  and not exists (select 1 from fates f where f.seq = e.seq and f.lifted = 0 and f.narrow = 0) and not exists (select 1 from disputes p where p.seq = e.seq)
  and not exists (select 1 from refs r join acts a on a.seq = r.seq
    where r.id = t.id and a.kind = 'archive' and a.by <> :night and a.at < e.expires)

-- name: superseded
select e.seq, t.id, w.name, h.at, by.name, h.seq, t.head
from entries h cross join fates f on f.hider = h.seq cross join entries e on e.seq = f.seq
cross join texts t on t.rec = e.rec cross join authors w on w.aid = e.aid cross join authors by on by.aid = h.aid
where h.at > :since and h.at <= :until and f.reason = 'superseded' and f.lifted = 0 and f.narrow = 0
  and h.at < e.expires
  and e.kind = 0 and w.name <> :night
  and by.name not in (:night, w.name)

-- name: critical_acts
select e.seq, t.id, w.name, a.seq, a.at, a.by, a.kind, a.fields, t.head
from entries e indexed by entries_critical cross join texts t on t.rec = e.rec cross join authors w on w.aid = e.aid
cross join refs r on r.id = t.id cross join acts a on a.seq = r.seq
where a.at > :since and a.at <= :until and a.kind in ('resolve', 'delivery') and a.by not in (:night, w.name)
  and e.prio = 0 and e.kind = 0 and w.name <> :night

-- name: citing
select e.seq, e.at, w.name, t.head from entries e join texts t on t.rec = e.rec join authors w on w.aid = e.aid
where e.at > :since and e.at <= :until and e.kind <> 1 and w.name <> :night
  and (t.head like '%"related"%' or t.head like '%"derived_from"%')

-- name: critical
select e.seq, w.name, t.head from ids i join entries e on e.seq = i.seq join texts t on t.rec = e.rec
join authors w on w.aid = e.aid where i.id = :id and e.prio = 0 and e.kind = 0

-- name: seen_by
select distinct agent from deliveries where entry = :id and state = 'rendered' and at <= :until order by agent

-- name: reviews
select seq, at, kind, by, fields from acts where kind in ('review', 'undo') order by seq

-- name: of_night
select a.seq, a.at, a.kind, a.by, null, a.fields from acts a where a.seq > :floor and a.by = :by
union all
select e.seq, e.at, 'entry', w.name, t.id, t.head from entries e join authors w using(aid) join texts t using(rec)
where e.seq > :floor and w.name = :by
order by 1

-- name: last_night
select coalesce(max(at), 0) from acts where kind = 'night'

-- name: nights
select seq, at, by, fields from acts where kind = 'night' order by seq

-- name: written_since
select count(*) from entries e where e.seq > :floor and e.aid not in (select aid from authors where name = :own)

-- name: in_dispute_now
select count(distinct d.seq) from disputes d join entries e on e.seq = d.seq where {live_to_some}

-- name: put_link
insert into links(cause, effect, type, strength, by, seq, at) values(?, ?, ?, ?, ?, ?, ?)
on conflict do update set type = excluded.type, strength = excluded.strength, by = excluded.by, seq = excluded.seq,
  at = excluded.at

-- name: put_use
insert into uses(id, n) values(?, ?) on conflict do update set n = n + excluded.n

-- name: links_of
select cause, effect, type, strength, by, at from links where cause = :id
union all
select cause, effect, type, strength, by, at from links where effect = :id and cause <> :id
order by 6, 1, 2

-- name: uses_of
select n from uses where id = :id

-- name: poll
select (select coalesce(sum(case e.aid when 0 then e.n else -e.n end), 0) from mailboxes e
    where e.aid in (0, :me) and (e.audience = 0 or e.audience in ({audiences}))),
  (select count(*) from entries e indexed by messages_mortal
    where e.kind = 1 and e.expires < 4611686018427387904 and e.expires <= :now and e.hidden = 0 and e.archived = 0
      and e.aid <> :me and {heard} and not exists (select 1 from receipts r where r.seq = e.seq and r.aid = :me))

-- name: inbox
select e.seq, e.rec, e.rev from messages m cross join entries e on e.seq = m.seq
where m.seq <= :cursor and e.aid <> :me and {live} and {heard}
  and not exists (select 1 from receipts r where r.seq = m.seq and r.aid = :me)
order by m.seq desc limit :limit

-- name: history
select e.seq, e.rec, e.rev from threads h cross join messages m on m.tid = h.tid cross join entries e on e.seq = m.seq
where h.id = :thread and m.seq < :before and m.seq <= :cursor and e.hidden <= :now
  and (e.archived = 1 or e.expires > :now) and {seen}
order by m.seq desc limit :limit

-- name: threads_active
select h.tid from threads h indexed by threads_live where h.live > 0 and h.closed = 0
  and (:tag is null or exists (select 1 from json_each(h.tags) j where j.value = :tag))
  and exists (select 1 from posted e where e.tid = h.tid and e.live > 0 and {seen})
order by h.last desc limit :limit

-- name: threads_any
select h.tid from threads h indexed by threads_last
where (:tag is null or exists (select 1 from json_each(h.tags) j where j.value = :tag))
  and (:status is null or :status = case when h.closed then 'closed' when exists (
    select 1 from posted e where e.tid = h.tid and e.live > 0 and {seen}) then 'active' else 'archived' end)
  and exists (select 1 from posted e where e.tid = h.tid and e.n > 0 and {seen})
order by h.last desc limit :limit

-- name: thread_of
select tid from threads where id = :id

-- name: tags_of_thread
select tags from threads where id = :id

-- name: thread_rows
select h.id, h.closed, h.subject, h.tags, sum(e.n), sum(e.live), min(e.first), max(e.last)
from threads h join posted e on e.tid = h.tid where h.tid in ({tids}) and {seen} group by h.tid

-- name: receipts_of
select r.seq, a.name, r.at, null from receipts r join authors a using(aid) where r.seq in ({seqs}) order by 1, 2

-- name: acks_of
select r.seq, a.name, r.at, r.body from acks r join authors a using(aid) where r.seq in ({seqs}) order by 1, 2

-- name: reactions_of
select r.seq, a.name, r.at, r.sign from reactions r join authors a using(aid) where r.seq in ({seqs}) order by 1, 2, 4

-- name: places
select seq, rec, rev from entries where seq in ({seqs})

-- name: idle
select t.id from threads h cross join entries z on z.seq = h.last cross join messages m on m.tid = h.tid
cross join entries e on e.seq = m.seq join texts t on t.rec = e.rec
where h.live > 0 and z.at <= :since and e.archived = 0 and e.hidden < :never order by m.seq

-- name: put_receipt
insert or ignore into receipts(seq, aid, at) select e.seq, :aid, :at from ids i join entries e on e.seq = i.seq
where i.id = :id and e.kind = 1

-- name: put_ack
insert into acks(seq, aid, at, body) select e.seq, :aid, :at, :body from ids i join entries e on e.seq = i.seq
where i.id = :id and e.kind = 1 on conflict do update set at = excluded.at, body = excluded.body

-- name: put_reaction
insert or ignore into reactions(seq, aid, sign, at) select e.seq, :aid, :sign, :at
from ids i join entries e on e.seq = i.seq where i.id = :id and e.kind = 1

-- name: drop_reaction
delete from reactions where aid = :aid and sign = :sign
  and seq = (select i.seq from ids i where i.id = :id)

-- name: put_thread_act
update threads set closed = coalesce(:closed, closed), subject = coalesce(:subject, subject), tags = coalesce(:tags, tags)
where id = :id

-- fragment: changed_since
exists (select 1 from entries_before b where b.seq = e.seq and b.record > :cursor)

-- fragment: then
(select n.seq, n.nid, n.aid, n.audience, n.at, n.expires, n.rec, n.kind, coalesce(b.hidden, n.hidden) as hidden,
  coalesce(b.archived, n.archived) as archived, coalesce(b.prio, n.prio) as prio, coalesce(b.rev, n.rev) as rev
  from entries n left join entries_before b on b.seq = n.seq
    and b.record = (select min(record) from entries_before where seq = n.seq and record > :cursor))

-- name: past_page
select seq, rec, rev from (
  select * from (select e.seq, e.rec, e.rev from entries e not indexed
    where e.seq > :floor and e.seq <= :cursor and e.prio in ({prios}) and {live_then} and {seen} and e.kind <> :unless
      and not {changed_since}
    order by e.seq desc limit :limit)
  union all
  select e.seq, e.rec, e.rev from (select distinct seq from entries_before where record > :cursor) c
    cross join {then} e on e.seq = c.seq
  where e.seq > :floor and e.seq <= :cursor and e.prio in ({prios}) and {live_then} and {seen} and e.kind <> :unless)
order by seq desc limit :limit

-- name: past_rows
select e.seq, e.at, e.expires, e.archived, t.id,
  coalesce((select head from heads_before where rec = e.rec and record > :cursor order by record limit 1), t.head), t.body
from {then} e join texts t on t.rec = e.rec where e.seq in ({seqs})

-- name: past_disputed
select seq from disputes where seq between :first and :last
union select seq from disputes_before where seq between :first and :last and record > :cursor and stood

-- name: past_peers
select t.id from (
  select peer from disputes d where seq = :seq and not exists (
    select 1 from disputes_before where seq = d.seq and peer = d.peer and record > :cursor)
  union
  select peer from disputes_before d where seq = :seq and stood and record = (
    select min(record) from disputes_before where seq = d.seq and peer = d.peer and record > :cursor)) d
cross join {then} e on e.seq = d.peer join texts t on t.rec = e.rec
where {live_then} and {seen} order by d.peer

-- name: past_agents
select seq, fields from acts indexed by acts_of_rulings where kind in
  ('archive', 'restore', 'resolve', 'approve', 'reject', 'vouch', 'undo', 'review', 'agent', 'settings', 'taint')
  and kind = 'agent' and seq <= :cursor order by seq

-- name: fates_changed
select 1 from acts a where a.seq > :cursor and a.kind in ('vouch', 'undo', 'untaint')
  and exists (select 1 from fates where narrow) limit 1

-- name: entries_around
select coalesce((select seq from entries where at <= :at order by at desc, seq desc limit 1), 0),
  coalesce((select seq from entries where at > :at order by at, seq limit 1), 4611686018427387904)

-- name: last_act_at
select seq from acts where seq > :floor and seq < :end and at <= :at order by seq desc limit 1
