-- The tables of the unified-brain document, as projections of the log: for SQL of one's own. Delete the file at any time.
-- Change anything, raise VERSION in tables.py: a file of another version is derived anew.
--
-- They differ from the document where its own examples would fail: `seq` (the place in the log) is a real key, because
-- a bare rowid changes with VACUUM; full text is kept up by triggers; an item may have vectors of several models.

create table synapse(key text primary key, value text not null) without rowid;
create table writing(open integer not null);   -- 1 within a transaction of our own
insert into writing values(0);
-- What somebody else wrote into these tables: it is not in the log, and does not stay.
create table strays(num integer primary key autoincrement, source text not null, key text, act text not null,
  content json, at text not null, undone integer not null default 0);
-- Messages that a new version took the place of.
create table versions(old text primary key, id text not null) without rowid;

create table messages(
  id text not null unique,             -- syn_<uuid12>
  thread_id text not null,             -- thr_<uuid>
  parent_id text,
  from_agent text not null,
  to_agent text,                       -- null: everybody; several are joined by commas
  priority text default 'normal',      -- info, normal, action, urgent
  subject text,
  body text not null,
  status text default 'sent',          -- sent, read, acknowledged
  created_at text not null,            -- ISO 8601, UTC
  updated_at text,
  metadata json,
  seq integer primary key
);
create table read_receipts(message_id text not null, agent_id text not null, read_at text not null,
  primary key(message_id, agent_id), foreign key(message_id) references messages(id));
create table acks(message_id text not null, agent_id text not null, ack_body text, acked_at text not null,
  primary key(message_id, agent_id), foreign key(message_id) references messages(id));
create table threads(id text primary key, subject text, created_by text not null, created_at text not null,
  last_message_at text, message_count integer default 0, status text default 'active', tags json);
create table agents(id text primary key, display_name text, last_seen_at text, capabilities json);
create table stm(
  id text not null unique, content text not null, categories json, importance real default 1.0,
  access_count integer default 0, created_at text not null, updated_at text, expires_at text,
  source text default 'agent', source_message_id text, seq integer primary key,
  foreign key(source_message_id) references messages(id)
);
create table atoms(
  id text not null unique, subject text not null, action text not null, outcome text not null,
  consequences text not null, confidence real default 1.0, source text default 'agent', source_message_id text,
  created_at text not null, seq integer primary key, foreign key(source_message_id) references messages(id)
);
create table atom_links(
  from_atom_id text not null, to_atom_id text not null, link_type text default 'causes', strength real default 0.5,
  created_at text not null, primary key(from_atom_id, to_atom_id),
  foreign key(from_atom_id) references atoms(id), foreign key(to_atom_id) references atoms(id)
);
create table embeddings(
  id text primary key, source_type text not null, source_id text not null, embedding blob not null,
  model text default 'nomic-embed-text', created_at text not null, dimension integer not null,
  unique(source_type, source_id, model)
);

create index idx_messages_thread on messages(thread_id, created_at);
create index idx_messages_from on messages(from_agent, created_at);
create index idx_messages_to on messages(to_agent, status);
create index idx_messages_priority on messages(priority, created_at);
create index idx_messages_created on messages(created_at);
create index idx_messages_parent on messages(parent_id) where parent_id is not null;
create index idx_threads_status on threads(status, last_message_at);
create index idx_stm_categories on stm(categories);
create index idx_stm_importance on stm(importance desc);
create index idx_stm_source on stm(source_message_id);
create index idx_atoms_source on atoms(source_message_id);
create index idx_links_to on atom_links(to_atom_id);

-- What waits for whom, the way the document's own query would have it: said to everybody, to an agent, or to a team.
drop view if exists unread;
create view unread as
  select a.id as agent_id, m.* from messages m join threads t on t.id = m.thread_id and t.status <> 'archived'
  join agents a on a.id <> m.from_agent and (
    m.to_agent is null
    or instr(',' || m.to_agent || ',', ',' || a.id || ',')
    or exists(select 1 from json_each(a.capabilities, '$.teams') g
      where instr(',' || m.to_agent || ',', ',team:' || g.value || ',')))
  where not exists(select 1 from read_receipts r where r.message_id = m.id and r.agent_id = a.id);

create virtual table messages_fts using fts5(subject, body, content=messages, content_rowid=seq);
create virtual table stm_fts using fts5(content, content=stm, content_rowid=seq);
create virtual table atoms_fts using fts5(subject, action, outcome, consequences, content=atoms, content_rowid=seq);

create trigger messages_worded after insert on messages begin
  insert into messages_fts(rowid, subject, body) values(new.seq, new.subject, new.body);
end;
create trigger messages_unworded after delete on messages begin
  insert into messages_fts(messages_fts, rowid, subject, body) values('delete', old.seq, old.subject, old.body);
end;
create trigger messages_reworded after update of seq, subject, body on messages begin
  insert into messages_fts(messages_fts, rowid, subject, body) values('delete', old.seq, old.subject, old.body);
  insert into messages_fts(rowid, subject, body) values(new.seq, new.subject, new.body);
end;
create trigger stm_worded after insert on stm begin
  insert into stm_fts(rowid, content) values(new.seq, new.content);
end;
create trigger stm_unworded after delete on stm begin
  insert into stm_fts(stm_fts, rowid, content) values('delete', old.seq, old.content);
end;
create trigger stm_reworded after update of seq, content on stm begin
  insert into stm_fts(stm_fts, rowid, content) values('delete', old.seq, old.content);
  insert into stm_fts(rowid, content) values(new.seq, new.content);
end;
create trigger atoms_worded after insert on atoms begin
  insert into atoms_fts(rowid, subject, action, outcome, consequences) values(new.seq, new.subject, new.action, new.outcome, new.consequences);
end;
create trigger atoms_unworded after delete on atoms begin
  insert into atoms_fts(atoms_fts, rowid, subject, action, outcome, consequences) values('delete', old.seq, old.subject, old.action, old.outcome, old.consequences);
end;
create trigger atoms_reworded after update of seq, subject, action, outcome, consequences on atoms begin
  insert into atoms_fts(atoms_fts, rowid, subject, action, outcome, consequences) values('delete', old.seq, old.subject, old.action, old.outcome, old.consequences);
  insert into atoms_fts(rowid, subject, action, outcome, consequences) values(new.seq, new.subject, new.action, new.outcome, new.consequences);
end;

-- Whatever is not written by us is noted.
create trigger messages_insert after insert on messages when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('messages', new.id, 'insert', json_array(new.thread_id, new.parent_id, new.from_agent, new.to_agent, new.priority, new.subject, new.body, new.status, new.created_at, new.updated_at, new.metadata), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger messages_update after update on messages when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('messages', new.id, 'update', json_array(new.thread_id, new.parent_id, new.from_agent, new.to_agent, new.priority, new.subject, new.body, new.status, new.created_at, new.updated_at, new.metadata), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'messages', old.id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.id is not new.id;
end;
create trigger messages_delete after delete on messages when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('messages', old.id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger read_receipts_insert after insert on read_receipts when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('read_receipts', new.message_id || ' ' || new.agent_id, 'insert', json_array(new.read_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger read_receipts_update after update on read_receipts when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('read_receipts', new.message_id || ' ' || new.agent_id, 'update', json_array(new.read_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'read_receipts', old.message_id || ' ' || old.agent_id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.message_id || ' ' || old.agent_id is not new.message_id || ' ' || new.agent_id;
end;
create trigger read_receipts_delete after delete on read_receipts when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('read_receipts', old.message_id || ' ' || old.agent_id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger acks_insert after insert on acks when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('acks', new.message_id || ' ' || new.agent_id, 'insert', json_array(new.ack_body, new.acked_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger acks_update after update on acks when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('acks', new.message_id || ' ' || new.agent_id, 'update', json_array(new.ack_body, new.acked_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'acks', old.message_id || ' ' || old.agent_id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.message_id || ' ' || old.agent_id is not new.message_id || ' ' || new.agent_id;
end;
create trigger acks_delete after delete on acks when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('acks', old.message_id || ' ' || old.agent_id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger threads_insert after insert on threads when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('threads', new.id, 'insert', json_array(new.subject, new.created_by, new.created_at, new.last_message_at, new.message_count, new.status, new.tags), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger threads_update after update on threads when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('threads', new.id, 'update', json_array(new.subject, new.created_by, new.created_at, new.last_message_at, new.message_count, new.status, new.tags), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'threads', old.id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.id is not new.id;
end;
create trigger threads_delete after delete on threads when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('threads', old.id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger agents_insert after insert on agents when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('agents', new.id, 'insert', json_array(new.display_name, new.last_seen_at, new.capabilities), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger agents_update after update on agents when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('agents', new.id, 'update', json_array(new.display_name, new.last_seen_at, new.capabilities), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'agents', old.id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.id is not new.id;
end;
create trigger agents_delete after delete on agents when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('agents', old.id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger stm_insert after insert on stm when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('stm', new.id, 'insert', json_array(new.content, new.categories, new.importance, new.access_count, new.created_at, new.updated_at, new.expires_at, new.source, new.source_message_id), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger stm_update after update on stm when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('stm', new.id, 'update', json_array(new.content, new.categories, new.importance, new.access_count, new.created_at, new.updated_at, new.expires_at, new.source, new.source_message_id), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'stm', old.id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.id is not new.id;
end;
create trigger stm_delete after delete on stm when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('stm', old.id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger atoms_insert after insert on atoms when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atoms', new.id, 'insert', json_array(new.subject, new.action, new.outcome, new.consequences, new.confidence, new.source, new.source_message_id, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger atoms_update after update on atoms when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atoms', new.id, 'update', json_array(new.subject, new.action, new.outcome, new.consequences, new.confidence, new.source, new.source_message_id, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'atoms', old.id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.id is not new.id;
end;
create trigger atoms_delete after delete on atoms when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atoms', old.id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger atom_links_insert after insert on atom_links when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atom_links', new.from_atom_id || ' ' || new.to_atom_id, 'insert', json_array(new.link_type, new.strength, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger atom_links_update after update on atom_links when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atom_links', new.from_atom_id || ' ' || new.to_atom_id, 'update', json_array(new.link_type, new.strength, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'atom_links', old.from_atom_id || ' ' || old.to_atom_id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.from_atom_id || ' ' || old.to_atom_id is not new.from_atom_id || ' ' || new.to_atom_id;
end;
create trigger atom_links_delete after delete on atom_links when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('atom_links', old.from_atom_id || ' ' || old.to_atom_id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger embeddings_insert after insert on embeddings when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('embeddings', new.source_type || ' ' || new.source_id, 'insert', json_array(new.id, new.model, new.dimension, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
create trigger embeddings_update after update on embeddings when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('embeddings', new.source_type || ' ' || new.source_id, 'update', json_array(new.id, new.model, new.dimension, new.created_at), strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
  insert into strays(source, key, act, content, at)
    select 'embeddings', old.source_type || ' ' || old.source_id, 'update', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
    where old.source_type || ' ' || old.source_id is not new.source_type || ' ' || new.source_id;
end;
create trigger embeddings_delete after delete on embeddings when (select open from writing) = 0 begin
  insert into strays(source, key, act, content, at)
    values('embeddings', old.source_type || ' ' || old.source_id, 'delete', null, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
end;
