-- How a budget in a database is decided upon. Nothing is left in a session: it works behind a pool
-- that hands on a connection with each transaction.

-- name: made
select to_regclass('{schema}.spend_about') is not null

-- name: about
select version from {schema}.spend_about

-- name: begin
/* Alone among all machines. What is counted is on the server's disk; a client that stops in the
   middle loses its turn before the others give up waiting for it. */
set local search_path to {schema};
set local synchronous_commit to on;
set local idle_in_transaction_session_timeout to '3s';
set local lock_timeout to '5s';
select filled from {schema}.spend_about for update

-- name: filled
update {schema}.spend_about set filled = true
