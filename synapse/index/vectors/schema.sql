-- The vectors of texts, beside the index: derived from the log and a model, and may be deleted at any time.
-- Change anything, raise VERSION in vectors.py: an older file is dropped, and all is embedded again.

create table meta(key text primary key, value text not null) without rowid;
create table models(
  num integer primary key,
  name text not null unique,
  dimension integer not null,
  reached integer not null default 0,     -- all before this place in the log has been gone through
  filed integer not null default 0        -- and acts that bear on earlier entries, up to this one
);
create table vectors(
  num integer primary key autoincrement,  -- grows: what came since is what is greater
  model integer not null,
  seq integer not null,                   -- the entry's
  part integer not null,                  -- of a long text
  digest blob not null,                   -- of all that was embedded, not of the part
  vector blob,                            -- of unit length, in halves of floats; null where the embedder refused it
  unique(model, seq, part)
);
create index vectors_seq on vectors(seq);
