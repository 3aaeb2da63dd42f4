-- Named statements on the file of vectors. {seqs} is filled with a list of our own integers, nothing else.

-- name: get_meta
select value from meta where key = :key

-- name: set_meta
insert into meta(key, value) values(:key, :value) on conflict(key) do update set value = excluded.value

-- name: model
select num, dimension, reached, filed from models where name = :name

-- name: models
select m.name, m.dimension, count(distinct v.seq), m.reached from models m left join vectors v on v.model = m.num
group by m.num order by m.name

-- name: put_model
insert into models(name, dimension) values(:name, :dimension)

-- name: reach
update models set reached = :reached where num = :model

-- name: rewind
update models set reached = 0, filed = :filed where name = :name

-- name: known
select distinct seq, digest from vectors where model = :model and seq > :floor and seq <= :top

-- name: seqs
select distinct seq from vectors where seq > :floor and seq <= :top

-- name: put_vector
insert into vectors(model, seq, part, digest, vector) values(?, ?, ?, ?, ?)

-- name: drop_seqs
delete from vectors where seq in ({seqs})

-- name: drop_of_model
delete from vectors where model = :model and seq in ({seqs})

-- name: since
select num, seq, vector from vectors where model = :model and num > :num and vector is not null order by num

-- name: amounts
select count(distinct seq), count(distinct case when vector is null then seq end) from vectors where model = :model
