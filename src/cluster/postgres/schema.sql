-- The tables of logs that several hosts share, in PostgreSQL 14 or newer.
--
-- `summarizer cluster init` runs this script when the tables are missing. An administrator may run it instead, once for
-- a database: psql -1 -v ON_ERROR_STOP=1 -f schema.sql
--
-- Every table is keyed by the name of the log, and a database may hold many. A role that is not the owner of the tables
-- reaches only the logs that `access` names for it.

CREATE SCHEMA summarizer;

-- One row for each log. Every append changes it, which is what keeps a deposed leader out.
CREATE TABLE summarizer.heads (
    log_id       text        NOT NULL PRIMARY KEY,
    format       integer     NOT NULL,          -- of tables, commits and events: what every host of the log reads
    store_id     bytea       NOT NULL,          -- the identity of the log, which its first hash is made of
    epoch        bigint      NOT NULL,          -- grows with each claim
    leader       text,                          -- host and start of the program that claimed last
    successor    text,                          -- the host that should lead next, if one was named
    lease_until  timestamptz NOT NULL,          -- by the clock of the server, the only clock that counts
    n            bigint      NOT NULL,          -- commits in the list, those before its start included
    seq          bigint      NOT NULL,          -- the last record
    hash         bytea       NOT NULL,          -- and its hash
    trimmed      bigint      NOT NULL,          -- commits before the start of the list
    trimmed_seq  bigint      NOT NULL,          -- the last record before it
    trimmed_hash bytea       NOT NULL,          -- and its hash
    CHECK (octet_length(store_id) = 16 AND octet_length(hash) = 32 AND octet_length(trimmed_hash) = 32)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE summarizer.commits (
    log_id    text   NOT NULL,
    n         bigint NOT NULL,
    epoch     bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    prev_hash bytea  NOT NULL,
    hash      bytea  NOT NULL,
    packed    bytea  NOT NULL,
    PRIMARY KEY (log_id, n),
    CHECK (octet_length(prev_hash) = 32 AND octet_length(hash) = 32)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE summarizer.commits ALTER COLUMN packed SET STORAGE EXTERNAL;
-- Finds the commit that a log ends with.
CREATE INDEX commits_by_seq ON summarizer.commits (log_id, last_seq);

-- The file of the keys that the bodies of a log are sealed with: every host has the same.
CREATE TABLE summarizer.keys (
    log_id    text   NOT NULL PRIMARY KEY,
    keys      bytea  NOT NULL,
    forgotten bigint NOT NULL DEFAULT 0         -- the last fact of forgetting whose keys are destroyed in it
);

-- How far the queue of each host was shipped, and how far each host has applied the list.
CREATE TABLE summarizer.hosts (
    log_id       text        NOT NULL,
    host         text        NOT NULL,
    incarnation  text,                          -- of its queue: a new one after the file was replaced
    shipped      bigint      NOT NULL DEFAULT 0,
    applied      bigint,                        -- commits of the list in its own log
    applied_hash bytea,                         -- the hash of the last record in its own log then
    release      text,                          -- of the program
    running      text,                          -- host and start of the service that runs under this name
    roles        text,                          -- what the host does for the others
    places       integer,                       -- attempts that its workers take at a time
    rules        text,                          -- a hash of its rules about data
    forgotten    bigint,                        -- a record: nothing is left there of what was forgotten by then
    reads        integer,                       -- the newest format that its program reads
    seen         timestamptz NOT NULL,
    PRIMARY KEY (log_id, host)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);

-- Whole queue lines of hosts, compressed, until the leader has taken them in.
CREATE TABLE summarizer.lines (
    log_id text   NOT NULL,
    host   text   NOT NULL,
    pos    bigint NOT NULL,                     -- where they stand in the queue of the host
    len    bigint NOT NULL,                     -- their bytes there
    bytes  bytea  NOT NULL,
    PRIMARY KEY (log_id, host, pos)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE summarizer.lines ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Attempts that wait for a worker on any host, and those that are under way.
CREATE TABLE summarizer.jobs (
    log_id      text   NOT NULL,
    job         bigint NOT NULL,                -- the record that started the attempt; every host has it
    leader      text   NOT NULL,                -- host and start of the program that listed it
    rules       text   NOT NULL,                -- a hash of its rules about data
    holder      text,                           -- host and start of the program that carries it out
    lease_until timestamptz,                    -- until when it has it
    asks        text[],                         -- hosts that may take it once each; all hosts where it is null
    PRIMARY KEY (log_id, job)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX jobs_free ON summarizer.jobs (log_id, job) WHERE holder IS NULL;

CREATE TABLE summarizer.reports (
    log_id  text   NOT NULL,
    job     bigint NOT NULL,
    number  bigint NOT NULL,                    -- counted from 0 for each job
    outcome bytea  NOT NULL,
    PRIMARY KEY (log_id, job, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Orders that were given on hosts that follow, until the leader has answered.
CREATE TABLE summarizer.orders (
    log_id   text        NOT NULL,
    id       text        NOT NULL,
    host     text        NOT NULL,              -- where it was given
    question bytea       NOT NULL,
    given    timestamptz NOT NULL,
    taker    text,                              -- host and start of the leader that took it
    answer   bytea,
    seq      bigint,                            -- the last record of the log when it was answered
    PRIMARY KEY (log_id, id)
);

-- Which role may use which log.
CREATE TABLE summarizer.access (
    log_id text NOT NULL,
    role   name NOT NULL,
    PRIMARY KEY (log_id, role)
);

ALTER TABLE summarizer.heads ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.commits ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.hosts ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.lines ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.reports ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE summarizer.access ENABLE ROW LEVEL SECURITY;

CREATE POLICY of_role ON summarizer.access USING (role = current_user);
CREATE POLICY of_log ON summarizer.heads
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.commits
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.keys
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.hosts
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.lines
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.jobs
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.reports
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));
CREATE POLICY of_log ON summarizer.orders
    USING (log_id IN (SELECT log_id FROM summarizer.access WHERE role = current_user));

-- What a host needs, and no more: it adds commits and never changes or deletes one. A role that may not create roles
-- leaves this out; then hosts connect as the owner of the tables.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'summarizer_host') THEN
        CREATE ROLE summarizer_host NOLOGIN;
    END IF;
    GRANT USAGE ON SCHEMA summarizer TO summarizer_host;
    GRANT SELECT ON summarizer.access TO summarizer_host;
    GRANT SELECT ON summarizer.keys TO summarizer_host;
    GRANT UPDATE (keys, forgotten) ON summarizer.keys TO summarizer_host;
    GRANT SELECT ON summarizer.heads TO summarizer_host;
    GRANT UPDATE (epoch, format, leader, successor, lease_until, n, seq, hash) ON summarizer.heads TO summarizer_host;
    GRANT SELECT, INSERT ON summarizer.commits TO summarizer_host;
    GRANT SELECT, INSERT, UPDATE, DELETE ON summarizer.hosts, summarizer.jobs, summarizer.orders TO summarizer_host;
    GRANT SELECT, INSERT, DELETE ON summarizer.lines, summarizer.reports TO summarizer_host;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'the role summarizer_host was not made, because this role may not create roles';
END
$$;
