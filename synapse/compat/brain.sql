-- Statements on the tables of the unified-brain document. What is written here is derived from the log.

-- name: get_meta
select value from synapse where key = :key

-- name: set_meta
insert or replace into synapse values(:key, :value)

-- name: known_file
select count(*), coalesce(sum(name = 'synapse'), 0) from sqlite_master

-- name: open
update writing set open = 1

-- name: shut
update writing set open = 0

-- name: clear_embeddings
delete from embeddings where id like 'emb%'

-- name: drop_message
delete from messages where id = :id

-- name: drop_receipts
delete from read_receipts where message_id = :id

-- name: drop_acks
delete from acks where message_id = :id

-- name: drop_stm
delete from stm where id = :id

-- name: drop_atom
delete from atoms where id = :id

-- name: drop_links
delete from atom_links where from_atom_id = :id or to_atom_id = :id

-- name: drop_thread
delete from threads where id = :id

-- name: drop_agent
delete from agents where id = :id

-- name: drop_embedding
delete from embeddings where source_id = :id

-- name: put_message
insert into messages(id, thread_id, parent_id, from_agent, to_agent, priority, subject, body, status, created_at,
  updated_at, metadata, seq)
values(:id, :thread_id, :parent_id, :from_agent, :to_agent, :priority, :subject, :body, :status, :created_at,
  :updated_at, :metadata, :seq)

-- name: put_receipt
insert into read_receipts values(:message_id, :agent_id, :read_at)

-- name: put_ack
insert into acks values(:message_id, :agent_id, :ack_body, :acked_at)

-- name: put_stm
insert into stm(id, content, categories, importance, access_count, created_at, updated_at, expires_at, source,
  source_message_id, seq)
values(:id, :content, :categories, :importance, :access_count, :created_at, :updated_at, :expires_at, :source,
  :source_message_id, :seq)

-- name: put_atom
insert into atoms(id, subject, action, outcome, consequences, confidence, source, source_message_id, created_at, seq)
values(:id, :subject, :action, :outcome, :consequences, :confidence, :source, :source_message_id, :created_at, :seq)

-- name: put_link
insert or ignore into atom_links select :cause, :effect, :type, :strength, :created_at
where exists(select 1 from atoms where id = :cause) and exists(select 1 from atoms where id = :effect)

-- name: put_thread
insert into threads values(:id, :subject, :created_by, :created_at, :last_message_at, :message_count, :status, :tags)

-- name: put_agent
insert or replace into agents values(:id, :display_name, :last_seen_at, :capabilities)

-- name: seen_agent
update agents set last_seen_at = :at where id = :id

-- name: put_embedding
insert or replace into embeddings(id, source_type, source_id, embedding, model, created_at, dimension)
values(:id, :source_type, :source_id, :embedding, :model, :created_at, :dimension)

-- name: keep_embedding
insert or ignore into embeddings(id, source_type, source_id, embedding, model, created_at, dimension)
values(:id, :source_type, :source_id, :embedding, :model, :created_at, :dimension)

-- name: put_version
insert or replace into versions values(:old, :id)

-- name: follow_versions
update versions set id = :id where id = :old

-- name: version_of
select id from versions where old = :old

-- name: follow_parents
update messages set parent_id = :id where parent_id = :old

-- name: follow_stm
update stm set source_message_id = :id where source_message_id = :old

-- name: follow_atoms
update atoms set source_message_id = :id where source_message_id = :old

-- name: thread_ends
select count(*), min(created_at), max(created_at) from messages where thread_id = :id

-- name: thread_first
select from_agent, subject from messages where thread_id = :id order by seq limit 1

-- name: item_of
select 'message', id, created_at from messages where seq = :seq
union all select 'stm', id, created_at from stm where seq = :seq
union all select 'atom', id, created_at from atoms where seq = :seq

-- name: strays_waiting
select num, source, key, act, content, at from strays where undone = 0 order by num

-- name: strays
select num, source, key, act, content, at from strays order by num

-- name: strays_undone
update strays set undone = 1 where undone = 0
