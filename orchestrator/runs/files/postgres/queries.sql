-- What supervisors ask of the database of their log. Every name stands behind that of its schema.

-- name: made
select to_regclass('{schema}.run_about') is not null

-- name: about
select version from {schema}.run_about

-- name: lock
/* Held by the session, which ends with its process. */
select pg_try_advisory_lock(hashtextextended({channel} || '/' || $1, 0))

-- name: beat
insert into {schema}.run_holder (name) values ($1)
on conflict (name) do update set beat = clock_timestamp()

-- name: hold
update {schema}.run_holder set since = beat where name = $1

-- name: lives
select {schema}.run_lives($1, $2, $3, $4)

-- name: holders
select name from {schema}.run_holder

-- name: sweep
/* One that hangs and comes back has a row again with its next beat. */
delete from {schema}.run_holder
where beat < clock_timestamp() - make_interval(secs => $1) and not {schema}.run_lives(name, $1, 0, true)

-- name: record
insert into {schema}.run_line (run, name, line)
select $1, $2, decode($3, 'hex') where {schema}.run_lasts($4)

-- name: sync
/* A commit takes all that was committed before it onto the disk. */
select pg_logical_emit_message(true, 'synapse', '') where {schema}.run_lasts(true)

-- name: write
insert into {schema}.run_file (run, name, text)
select $1, $2, decode($3, 'hex') where {schema}.run_lasts($4)
on conflict (run, name) do update set text = excluded.text

-- name: read
select encode(text, 'hex') from {schema}.run_file where run = $1 and name = $2

-- name: lines
select n, encode(line, 'hex') from {schema}.run_line
where run = $1 and name = $2 and n > $3 order by n

-- name: has
select 1 from {schema}.run_file where run = $1 and name = $2
union all select 1 from {schema}.run_line where run = $1 and name = $2 limit 1

-- name: leave
delete from {schema}.run_holder where name = $1
