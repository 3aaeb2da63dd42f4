-- Tables beside the log's, in the schema of a workspace. `run_holder` has a row for each supervisor,
-- `run_line` and `run_file` have what lies in the folders of runs.

-- version: 1

create table {schema}.run_about (
    one boolean primary key default true check (one),
    version int not null
);

create table {schema}.run_line (
    run text not null,
    name text not null,
    n bigint generated always as identity,
    line bytea not null,
    primary key (run, name, n)
);

create table {schema}.run_file (
    run text not null,
    name text not null,
    text bytea not null,
    primary key (run, name)
);

-- Whether what is stored is on the server's disk at the end of the transaction, whatever the role or
-- the database says. Of a line that is not, a crash of the server may leave nothing.
create function {schema}.run_lasts(lasting bool) returns boolean language sql volatile as $$
    select set_config('synchronous_commit', case
        when not lasting then 'off'
        when current_setting('synchronous_commit') in ('off', 'local') then 'on'
        else current_setting('synchronous_commit')
    end, true) is not null
$$;

create table {schema}.run_holder (
    name text primary key,
    beat timestamptz not null default clock_timestamp(),
    since timestamptz  -- when its session took the lock of its name
);

-- Whether a holder is alive, by this clock alone. Its session holds the lock of its name, so that a
-- crash shows at once; a process that hangs beats no more. A session that was cut off is there again
-- within `gap` seconds. Of those from before the server's start, who comes back has a lease from
-- when the first one could; whoever asks for a supervisor (`held`) has come back itself by then.
create function {schema}.run_lives(holder text, lease float, gap float, held bool)
returns boolean language sql volatile as $$
    select coalesce(bool_or(case
        when since > started then beat > at - make_interval(secs => lease) and (
            beat > at - make_interval(secs => gap)
            or not pg_try_advisory_xact_lock_shared(hashtextextended({channel} || '/' || name, 0))
        )
        else greatest(beat, coalesce(
            (select min(since) from {schema}.run_holder where since > started),
            case when held then at else started end
        )) > at - make_interval(secs => lease)
    end), false)
    from {schema}.run_holder, clock_timestamp() as at, pg_postmaster_start_time() as started
    where name = holder
$$;

insert into {schema}.run_about (version) values (1);
