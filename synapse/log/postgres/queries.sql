-- What a journal asks of its database. Every name stands behind that of its schema, and nothing is
-- left in a session: all of it works behind a pool that hands on a connection with each transaction.

-- name: about
select version, workspace::text from {schema}.about

-- name: head
select seq, chain from {schema}.head

-- name: behind
/* The line at this place first: it shows whether the log is still the one that was read. */
select seq, case seq when $1 then substr(raw, 1, 80) else raw end
from {schema}.line where seq >= $1 order by seq limit $2

-- name: chain
select substr(raw, 11, 64) from {schema}.line where seq = $1

-- name: begin
begin isolation level read committed

-- name: guard
/* What is acknowledged is on the server's disk, whatever the role or the database says. A client
   that stops in the middle loses its turn before the others give up waiting for it. */
select
    set_config('synchronous_commit', case current_setting('synchronous_commit')
        when 'off' then 'on' when 'local' then 'on' else current_setting('synchronous_commit')
        end, true),
    set_config('idle_in_transaction_session_timeout', '3s', true),
    set_config('lock_timeout', '5s', true)

-- name: savepoint
savepoint tried

-- name: again
rollback to savepoint tried

-- name: commit
commit

-- name: rollback
rollback

-- name: lock
select seq, chain from {schema}.head for update

-- name: append
select {schema}.append($1, $2, $3, $4)

-- name: attempt
select substr(raw, 11, 64) from {schema}.line
where seq > $1 and attempt = $2 order by seq limit 1

-- name: blank
update {schema}.line set raw = $2 where seq = $1

-- name: made
select to_regclass('{schema}.about') is not null
