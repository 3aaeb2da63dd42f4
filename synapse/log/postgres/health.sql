-- What the doctor asks a database. All of it in one round trip, and without rights beyond those of
-- who writes: of other roles' sessions PostgreSQL then shows less.

-- name: server
select
    current_setting('server_version_num'), split_part(current_setting('server_version'), ' ', 1),
    pg_backend_pid(), current_setting('transaction_read_only'),
    (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    (select count(*) from pg_stat_activity where backend_type = 'client backend'),
    current_setting('max_connections')

-- name: settings
select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'autovacuum', 'synchronous_commit', 'server_encoding')

-- name: head
select seq, chain from {schema}.head

-- name: machines
select count(distinct client_addr) from pg_stat_activity
where datname = current_database() and application_name = 'synapse'

-- name: transactions
/* Who has a lock on the head and waits for nobody has its row. */
select
    pid, coalesce(usename, ''), coalesce(host(client_addr), 'the server itself'),
    coalesce(state, 'active'), coalesce(extract(epoch from now() - xact_start), 0)::int,
    exists (
        select from pg_locks
        where pg_locks.pid = activity.pid and relation = '{schema}.head'::regclass
            and mode in ('RowShareLock', 'ExclusiveLock', 'AccessExclusiveLock') and granted
    ) and cardinality(pg_blocking_pids(pid)) = 0
from pg_stat_activity activity
where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null

-- name: size
select
    pg_table_size('{schema}.head'), pg_total_relation_size('{schema}.line'), n_dead_tup
from pg_stat_all_tables where relid = '{schema}.line'::regclass
