-- The tables of a budget, beside the log's, in the schema of a workspace. They are those of the file
-- that a machine alone has, and the same statements go over both. `spend_about` is locked by whoever
-- decides.

-- version: 1

create table {schema}.spend_about (
    one boolean primary key default true check (one),
    version int not null,
    filled boolean not null default false  -- whether the ledgers so far were counted
);

create table {schema}.spent (
    scope text primary key, turns bigint not null, tokens bigint not null, nanos bigint not null,
    micros bigint not null, runs bigint not null
);

create table {schema}.call (
    id bigint generated always as identity primary key, run text not null, holder text not null,
    turns bigint not null, tokens bigint not null, nanos bigint not null, micros bigint not null,
    line text not null
);

create table {schema}.held (
    scope text not null, call bigint not null, primary key (scope, call)
);

create table {schema}.live (
    scope text not null, run text not null, holder text not null, primary key (scope, run)
);

create index on {schema}.call (run);
create index on {schema}.held (call);
create index on {schema}.live (run);

insert into {schema}.spend_about (version) values (1);
