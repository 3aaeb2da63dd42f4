-- The projection. Everything here is derived from the log and may be deleted at any time.
-- Change anything, raise VERSION in database.py: an older index is dropped and built again.

create table meta(key text primary key, value text not null) without rowid;
create table namespaces(nid integer primary key, name text not null unique);
create table authors(aid integer primary key, name text not null unique);
create table audiences(num integer primary key, name text not null unique);  -- lists of teams and agents

-- One slim row per entry that took effect, in the order of the log; what a page filters by, the most asked first.
create table entries(
  seq integer primary key,          -- its place in the log; for an approved one, the approval's
  nid integer not null,
  aid integer not null,
  audience integer not null,        -- the list that it is addressed to; 0 is everybody
  prio integer not null,            -- 0 critical, 1 important, 2 info
  hidden integer not null,          -- not shown before this microsecond; superseded and resolved: never; tainted: one more;
                                    -- -1: not shown to those who may see what stands in its place, as `fates` has it
  expires integer not null,
  archived integer not null default 0,
  at integer not null,              -- microsecond of receipt, grows with seq
  rec integer not null,             -- the seq of the record that holds its text
  rev integer not null default 0,   -- grows when a vouch or the archive changes what the text alone would give
  kind integer not null,            -- 0 entry, 1 message, 2 fact, 3 atom
  bytes integer not null            -- of its fields and its text
);
create index entries_at on entries(at);
create index entries_lane on entries(nid, prio);
create index entries_author on entries(aid);
create index entries_critical on entries(seq) where prio = 0;
create index entries_narrow on entries(seq) where hidden < 0;
create index entries_hidden on entries(hidden) where hidden > 0 and hidden < 4611686018427387904;
-- All that a page asks: a view looks at thousands of these, and at the entries themselves for none.
create index entries_weighty on entries(seq, nid, aid, audience, hidden, expires, archived, prio, rec, rev, kind)
  where prio < 2;
create index entries_pages on entries(seq) where kind <> 1;  -- the way past a lot of mail
create index entries_audience on entries(audience) where audience > 0;
create index entries_expires on entries(expires) where hidden = 0 and archived = 0;

create table texts(rec integer primary key, id text not null, path text, head text not null, body text not null);
create table ids(id text primary key, rec integer not null, seq integer) without rowid;
-- Messages in the order of their threads: the one before and the one after another is a step in the index.
create table threads(
  tid integer primary key,
  id text not null unique,
  last integer not null default 0,    -- its last message
  live integer not null default 0,    -- how many messages are neither filed away nor replaced
  closed integer not null default 0,
  subject text,                       -- what it was renamed to
  tags text
);
create index threads_last on threads(last);
create index threads_live on threads(last) where live > 0 and closed = 0;
create table messages(seq integer primary key, tid integer not null, parent text);
create index messages_thread on messages(tid);  -- within a thread in the order of seq, which is the row's own number
-- Knowledge: what atoms do to one another, as the last word on each pair has it; how often items were asked for.
create table links(cause text, effect text, type text not null, strength real not null, by text not null,
  seq integer not null, at integer not null, primary key(cause, effect)) without rowid;
create index links_effect on links(effect);
create table uses(id text primary key, n integer not null) without rowid;
create index messages_mortal on entries(expires) where kind = 1 and expires < 4611686018427387904;
create table receipts(seq integer, aid integer, at integer not null, primary key(seq, aid)) without rowid;
create table acks(seq integer, aid integer, at integer not null, body text, primary key(seq, aid)) without rowid;
create table reactions(seq integer, aid integer, sign text, at integer not null, primary key(seq, aid, sign)) without rowid;
-- Of each thread, list of addressees and author: how many messages were not replaced (n), are in no archive (live).
create table posted(tid integer, audience integer, aid integer, nid integer not null, n integer not null,
  live integer not null, first integer not null, last integer not null, primary key(tid, audience, aid)) without rowid;
-- How many messages stand for a list of addressees (aid 0), and how many of those an agent wrote or has read.
create table mailboxes(aid integer, audience integer, n integer not null, primary key(aid, audience)) without rowid;
create trigger message_arrives after insert on messages begin
  insert into mailboxes select 0, e.audience, 1 from entries e where e.seq = new.seq
    on conflict do update set n = n + 1;
  insert into mailboxes select e.aid, e.audience, 1 from entries e where e.seq = new.seq
    on conflict do update set n = n + 1;
  insert into posted select new.tid, e.audience, e.aid, e.nid, 1, 1, e.seq, e.seq from entries e where e.seq = new.seq
    on conflict do update set n = n + 1, live = live + 1, first = min(first, new.seq), last = max(last, new.seq);
  update threads set last = max(last, new.seq), live = live + 1 where tid = new.tid;
end;
create trigger message_read after insert on receipts begin
  insert into mailboxes select new.aid, e.audience, e.hidden = 0 and e.archived = 0 from entries e
    where e.seq = new.seq and e.aid <> new.aid on conflict do update set n = n + excluded.n;
end;
create trigger message_moves after update of hidden, archived on entries
when new.kind = 1 and (old.hidden <> new.hidden or old.archived <> new.archived) begin
  update mailboxes set n = n + (new.hidden = 0 and new.archived = 0) - (old.hidden = 0 and old.archived = 0)
    where audience = new.audience
      and aid in (select 0 union all select new.aid union all select r.aid from receipts r where r.seq = new.seq);
  update posted set n = n + (new.hidden = 0) - (old.hidden = 0),
    live = live + (new.hidden = 0 and new.archived = 0) - (old.hidden = 0 and old.archived = 0)
    where tid = (select m.tid from messages m where m.seq = new.seq) and audience = new.audience and aid = new.aid;
  update threads set live = live + (new.hidden = 0 and new.archived = 0) - (old.hidden = 0 and old.archived = 0)
    where tid = (select m.tid from messages m where m.seq = new.seq);
end;
create table tags(tag text, seq integer, primary key(tag, seq)) without rowid;
create table topics(nid integer, topic text, seq integer, primary key(nid, topic, seq)) without rowid;
create table heirs(old integer, seq integer, primary key(old, seq)) without rowid;
create table fates(  -- all that hides an entry; `hidden` is the longest of those whose hider stands, -1 where one is narrow
  seq integer, hider integer, reason text not null, until integer not null,
  lifted integer not null default 0,  -- 1 where an undo took back what the hider did
  narrow integer not null default 0,  -- 1 where some of its readers may not see the hider, and still have it
  primary key(seq, hider)) without rowid;
create index fates_hider on fates(hider);
create table disputes(seq integer, peer integer, primary key(seq, peer)) without rowid;
create index disputes_peer on disputes(peer);
create table staged(rec integer primary key, at integer not null);

-- What a later record changed, as it was before that record: how an entry stands, its head, a dispute. By it the index
-- answers as of an earlier record, and nobody pays for it but who changes something.
create table taking(seq integer not null);  -- the record that is being taken in
insert into taking values(0);
create table entries_before(seq integer, record integer, hidden integer not null, archived integer not null,
  prio integer not null, rev integer not null, primary key(seq, record)) without rowid;
create index entries_before_record on entries_before(record);
create table heads_before(rec integer, record integer, head text not null, primary key(rec, record)) without rowid;
create table disputes_before(seq integer, peer integer, record integer, stood integer not null,
  primary key(seq, peer, record)) without rowid;
create trigger entry_changes after update of hidden, archived, prio, rev on entries
when old.hidden <> new.hidden or old.archived <> new.archived or old.prio <> new.prio or old.rev <> new.rev begin
  insert or ignore into entries_before
    select old.seq, t.seq, old.hidden, old.archived, old.prio, old.rev from taking t;
end;
create trigger head_changes after update of head on texts when old.head <> new.head begin
  insert or ignore into heads_before select old.rec, t.seq, old.head from taking t;
end;
create trigger dispute_begins after insert on disputes begin
  insert or ignore into disputes_before select new.seq, new.peer, t.seq, 0 from taking t;
end;
create trigger dispute_ends after delete on disputes begin
  insert or ignore into disputes_before select old.seq, old.peer, t.seq, 1 from taking t;
end;

-- Every record that is not an entry, and what it speaks of.
create table acts(seq integer primary key, at integer not null, kind text not null, by text not null, fields text not null);
create index acts_of_nights on acts(at) where kind = 'night';
create index acts_of_keys on acts(seq) where kind = 'key';
create index acts_of_reviews on acts(seq) where kind in ('review', 'undo', 'taint');
create index acts_of_rulings on acts(seq) where kind in
  ('archive', 'restore', 'resolve', 'approve', 'reject', 'vouch', 'undo', 'review', 'agent', 'settings',
  'taint');
create table refs(id text, seq integer, primary key(id, seq)) without rowid;
create table agents(id text primary key, seq integer not null, fields text not null) without rowid;
create table active(agent text primary key, at integer not null) without rowid;
-- What agents were shown. Everything up to `floor`, and by name the entries of `seen`, each with the first record that
-- says so; what was left out is counted up to `cursor`, in `lanes_left`.
create table shown(aid integer primary key, floor integer not null, cursor integer not null);
create table seen(aid integer, seq integer, mark integer not null, primary key(aid, seq)) without rowid;
create table once(by text, key text, seq integer not null, primary key(by, key)) without rowid;
create table keyed(key text, seq integer, fields text not null, primary key(key, seq)) without rowid;
create table voids(seq integer primary key);
-- Records that were written elsewhere and not accepted: what they are and whose, and nothing of what they say.
create table foreign_records(seq integer primary key, kind text not null, by text not null, id text, alias text);
create index foreign_ids on foreign_records(id);
create index foreign_aliases on foreign_records(alias);

-- Runs, each as all of its records make it, and how far entries came on their way to agents.
create table runs(
  id text primary key, seq integer not null, at integer not null, agent text not null, project text, parent text,
  root text, state text, status text, epoch integer not null, holder text, ended_at integer, fields text not null,
  department text as (coalesce(nullif(json_extract(fields, '$.department'), ''), '-')) stored,
  role text as (coalesce(nullif(json_extract(fields, '$.role'), ''), '-')) stored,
  model text as (coalesce(nullif(json_extract(fields, '$.model'), ''), '-')) stored
) without rowid;
create index runs_seq on runs(seq);
create index runs_state on runs(state, seq);
create index runs_root on runs(root, seq);
create index runs_parent on runs(parent, seq);
create index runs_agent on runs(agent, seq);
create index runs_project on runs(project, seq);
create index runs_at on runs(at);
create index runs_ended on runs(ended_at);
create table deliveries(entry text, agent text, run text, epoch integer, state text, at integer not null,
  primary key(entry, agent, run, epoch, state)) without rowid;
create index deliveries_agent on deliveries(agent, at);
create index deliveries_run on deliveries(run, at);

-- Kept for speed, not part of the digest.
create table tokens(digest blob, encoding text, n integer not null, primary key(digest, encoding)) without rowid;
create virtual table words using fts5(
  text, content='', columnsize=0, detail=none, tokenize="porter unicode61 remove_diacritics 2");
insert into words(words, rank) values('hashsize', 8388608);  -- how much is sorted in memory before it is merged

create table long(seq integer primary key, words integer not null);  -- of more than 64 words

-- How many entries there are of a kind, and how many of them are neither hidden nor archived, nor had expired when
-- the last record was received (`swept`). The first counts of a page need no look at the entries themselves.
create table lanes(nid integer, prio integer, audience integer, n integer not null, live integer not null,
  primary key(nid, prio, audience)) without rowid;
create table swept(at integer not null);
insert into swept values(0);
-- Of each agent: how many entries of others there are between its `floor` and its `cursor` that it was not shown and
-- that are live in the same sense. Mail is left out: it has an inbox.
create table lanes_left(aid integer, nid integer, audience integer, live integer not null,
  primary key(aid, nid, audience)) without rowid;
create trigger entry_is_seen after insert on seen begin
  update lanes_left set live = live - 1 where aid = new.aid and (nid, audience) = (
    select e.nid, e.audience from entries e where e.seq = new.seq and e.aid <> new.aid and e.kind <> 1
      and e.hidden = 0 and e.archived = 0 and e.expires > (select at from swept)
      and e.seq <= (select cursor from shown where aid = new.aid));
end;
create trigger left_entry_changes after update of hidden, archived on entries
when new.expires > (select at from swept) and new.kind <> 1
  and (old.hidden = 0 and old.archived = 0) <> (new.hidden = 0 and new.archived = 0) begin
  update lanes_left set live = live + iif(new.hidden = 0 and new.archived = 0, 1, -1)
    where nid = new.nid and audience = new.audience and aid in (
      select s.aid from shown s where s.floor < new.seq and s.cursor >= new.seq and s.aid <> new.aid
        and not exists (select 1 from seen n where n.aid = s.aid and n.seq = new.seq));
end;
create trigger entries_change after update of hidden, archived, prio on entries
when new.expires > (select at from swept) begin
  insert into lanes select old.nid, old.prio, old.audience, 0, -1 where old.hidden = 0 and old.archived = 0
    on conflict do update set live = live - 1;
  insert into lanes select new.nid, new.prio, new.audience, 0, 1 where new.hidden = 0 and new.archived = 0
    on conflict do update set live = live + 1;
end;
