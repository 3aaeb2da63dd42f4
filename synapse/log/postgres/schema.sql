-- The tables of one workspace, in a schema of its own. `line` is the log: a row per line of the
-- journal, without its newline. `head` is its last line; who appends locks it, so that the number,
-- the chain, `once`, guards and ids are decided against one tail.

-- version: 1

create schema if not exists {schema};

create table {schema}.about (
    one boolean primary key default true check (one),
    version int not null,
    workspace uuid not null default gen_random_uuid()
);

create table {schema}.line (seq bigint primary key, attempt uuid not null, raw text not null);

-- texts are read far more often than a disk is short of room
alter table {schema}.line alter column raw set storage external;

create table {schema}.head (
    one boolean primary key default true check (one),
    seq bigint not null,
    chain text not null
);

insert into {schema}.head (seq, chain) values (0, repeat('0', 64));

-- Append lines behind this tail, in the transaction that holds the head. The error says that others
-- wrote meanwhile: the client reads what they wrote, decides anew and sends its lines again.
create function {schema}.append(after bigint, after_chain text, by_attempt uuid, lines text)
returns void language plpgsql as $$
declare
    added bigint;
begin
    if not exists (select from {schema}.head where seq = after and chain = after_chain) then
        raise exception 'others appended meanwhile: the lines are sent again'
            using errcode = 'SY001';
    end if;
    insert into {schema}.line (seq, attempt, raw)
        select after + n, by_attempt, raw
        from string_to_table(lines, E'\n') with ordinality as new (raw, n);
    get diagnostics added = row_count;
    update {schema}.head set seq = after + added, chain = (
        select substr(raw, 11, 64) from {schema}.line where line.seq = after + added
    );
    perform pg_notify({channel}, '');
end
$$;

insert into {schema}.about (version) values (1);
