-- The mirror of Cortex's log. Names that begin with v_ are for people and programs, and stay; the tables behind them may change.

-- One row for each log that was mirrored here: a log that was made anew is another one.
CREATE TABLE cortex.logs (
	log        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name       text NOT NULL,
	created    text NOT NULL, -- with nanoseconds, which timestamptz has not
	position   bigint NOT NULL DEFAULT 0, -- everything up to this version is here
	retired    bigint NOT NULL DEFAULT 0, -- what was up to this version may have been dropped since, because it is old
	first_seen timestamptz NOT NULL DEFAULT now(),
	updated    timestamptz NOT NULL DEFAULT now(),
	UNIQUE (name, created)
);

-- One row for each entry of a log. stored is the server's time, entry_time the one in the entry.
CREATE TABLE cortex.entries (
	log        bigint NOT NULL,
	version    bigint NOT NULL,
	stored     timestamptz NOT NULL,
	tenant     text NOT NULL,
	context_id text NOT NULL,
	seq        bigint,
	entry_time timestamptz,
	life       text,
	turn_id    text,
	task_id    text,
	event_id   text,
	event_type text NOT NULL,
	sender     text,
	trace_id   text,
	decision   text,
	size       bigint NOT NULL,
	sum        bigint NOT NULL, -- checksum of the entry in the log
	mangled    boolean NOT NULL DEFAULT false, -- something in body is not as it is in the log, since jsonb cannot hold it
	body       jsonb,
	PRIMARY KEY (log, version, stored)
) PARTITION BY RANGE (stored);
CREATE TABLE cortex.entries_default PARTITION OF cortex.entries DEFAULT;
CREATE INDEX entries_conversation ON cortex.entries (log, tenant, context_id);
CREATE INDEX entries_stored ON cortex.entries USING brin (stored);

-- Entries that cannot be read, or not as JSON: as they are in the log.
CREATE TABLE cortex.quarantine (
	log        bigint NOT NULL,
	version    bigint NOT NULL,
	stored     timestamptz NOT NULL,
	tenant     text NOT NULL,
	context_id text NOT NULL,
	reason     text NOT NULL,
	raw        bytea,
	PRIMARY KEY (log, version)
);

-- Entries that the log says it erases, until they are gone there.
CREATE TABLE cortex.erasing (
	log     bigint NOT NULL,
	version bigint NOT NULL,
	said    timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (log, version)
);

CREATE TABLE cortex.conversations (
	log           bigint NOT NULL,
	tenant        text NOT NULL,
	context_id    text NOT NULL,
	life          text NOT NULL,
	owner         text NOT NULL,
	entries       bigint NOT NULL,
	turns         bigint NOT NULL,
	began         timestamptz,
	updated       timestamptz,
	input_tokens  bigint NOT NULL,
	output_tokens bigint NOT NULL,
	cached_tokens bigint NOT NULL,
	cost          double precision NOT NULL,
	damage        text,
	version       bigint NOT NULL,
	PRIMARY KEY (log, tenant, context_id)
);

CREATE TABLE cortex.turns (
	log           bigint NOT NULL,
	tenant        text NOT NULL,
	context_id    text NOT NULL,
	turn_id       text NOT NULL,
	message_id    text NOT NULL,
	user_id       text NOT NULL,
	asked         timestamptz NOT NULL,
	answered      timestamptz,
	outcome       text NOT NULL,
	failed        boolean NOT NULL,
	model         text NOT NULL,
	steps         bigint NOT NULL,
	tasks         bigint NOT NULL,
	input_tokens  bigint NOT NULL,
	output_tokens bigint NOT NULL,
	cached_tokens bigint NOT NULL,
	cost          double precision NOT NULL,
	trace_id      text NOT NULL,
	error         text,
	version       bigint NOT NULL,
	PRIMARY KEY (log, tenant, context_id, turn_id)
);
CREATE INDEX turns_asked ON cortex.turns (asked);

CREATE TABLE cortex.tasks (
	log        bigint NOT NULL,
	tenant     text NOT NULL,
	context_id text NOT NULL,
	task_id    text NOT NULL,
	turn_id    text NOT NULL,
	agent      text NOT NULL,
	skill      text NOT NULL,
	state      text NOT NULL,
	attempts   bigint NOT NULL,
	created    timestamptz NOT NULL,
	sent       timestamptz,
	ended      timestamptz,
	deadline   timestamptz,
	reason     text,
	version    bigint NOT NULL,
	PRIMARY KEY (log, tenant, context_id, task_id)
);
CREATE INDEX tasks_created ON cortex.tasks (created);

-- What was spent on models: at most three rows for an entry, one for each purpose.
CREATE TABLE cortex.spending (
	log           bigint NOT NULL,
	version       bigint NOT NULL,
	purpose       text NOT NULL,
	tenant        text NOT NULL,
	context_id    text NOT NULL,
	turn_id       text NOT NULL,
	spent         timestamptz NOT NULL,
	model         text NOT NULL,
	input_tokens  bigint NOT NULL,
	output_tokens bigint NOT NULL,
	cached_tokens bigint NOT NULL,
	cost          double precision NOT NULL,
	estimated     boolean NOT NULL,
	PRIMARY KEY (log, version, purpose)
);
CREATE INDEX spending_spent ON cortex.spending (spent);
CREATE INDEX spending_conversation ON cortex.spending (log, tenant, context_id);

CREATE TABLE cortex.agents (
	tenant         text NOT NULL,
	agent_id       text NOT NULL,
	state          text NOT NULL,
	card           jsonb,
	skills         text[] NOT NULL,
	tags           text[] NOT NULL,
	registered     timestamptz NOT NULL,
	last_heartbeat timestamptz,
	gone           timestamptz,
	PRIMARY KEY (tenant, agent_id)
);

CREATE TABLE cortex.agent_events (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at       timestamptz NOT NULL,
	tenant   text NOT NULL,
	agent_id text NOT NULL,
	event    text NOT NULL,
	detail   jsonb NOT NULL
);
CREATE INDEX agent_events_at ON cortex.agent_events (at);

-- Who may read which tenants: see cortex.allow.
CREATE TABLE cortex.readers (
	reader text NOT NULL,
	tenant text NOT NULL, -- '' is the default one, '*' all
	PRIMARY KEY (reader, tenant)
);

-- The tenants that the user who has connected may read. Membership counts: a reader may be a group.
CREATE FUNCTION cortex.readable() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
	SELECT r.tenant FROM cortex.readers r WHERE to_regrole(quote_ident(r.reader)) IS NOT NULL AND pg_has_role(session_user, to_regrole(quote_ident(r.reader)), 'MEMBER')
$$;

-- allow lets a role read a tenant: '' is the default one, '*' all. disallow takes that back.
CREATE FUNCTION cortex.allow(reader text, tenant text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	BEGIN
		PERFORM cortex.share();
		EXECUTE format('GRANT cortex_read TO %I', reader);
	EXCEPTION WHEN insufficient_privilege THEN
		RAISE EXCEPTION '%, so % cannot let others read', SQLERRM, current_user USING ERRCODE = 'insufficient_privilege',
			HINT = format('Have an administrator of the server run: SELECT cortex.allow(%L, %L)', reader, tenant);
	END;
	INSERT INTO cortex.readers VALUES (reader, tenant) ON CONFLICT DO NOTHING;
END $$;
CREATE FUNCTION cortex.disallow(reader text, tenant text) RETURNS void LANGUAGE sql SET search_path = pg_catalog AS $$
	DELETE FROM cortex.readers r WHERE r.reader = $1 AND r.tenant = $2
$$;

DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['entries', 'quarantine', 'conversations', 'turns', 'tasks', 'spending', 'agents', 'agent_events'] LOOP
		EXECUTE format('ALTER TABLE cortex.%I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE format('CREATE POLICY tenants ON cortex.%I FOR SELECT USING ((SELECT ''*'' IN (SELECT cortex.readable())) OR tenant IN (SELECT cortex.readable()))', t);
	END LOOP;
END $$;

-- The names of events are those of the design that Cortex follows: category.action.
CREATE VIEW cortex.v_entries WITH (security_invoker = true) AS
	SELECT log, version, stored, tenant, context_id, seq, entry_time, turn_id, task_id, event_id, event_type, sender, trace_id, decision, size, mangled, body FROM cortex.entries;
CREATE VIEW cortex.v_conversations WITH (security_invoker = true) AS
	SELECT log, tenant, context_id, owner, entries, turns, began, updated, input_tokens, output_tokens, cached_tokens, cost, damage FROM cortex.conversations;
CREATE VIEW cortex.v_turns WITH (security_invoker = true) AS
	SELECT log, tenant, context_id, turn_id, message_id, user_id, asked, answered, extract(epoch FROM answered - asked)::double precision AS seconds,
		outcome, failed, model, steps, tasks, input_tokens, output_tokens, cached_tokens, cost, trace_id, error FROM cortex.turns;
CREATE VIEW cortex.v_tasks WITH (security_invoker = true) AS
	SELECT log, tenant, context_id, task_id, turn_id, agent, skill, state, attempts, created, sent, ended, extract(epoch FROM ended - sent)::double precision AS seconds,
		deadline, reason FROM cortex.tasks;
CREATE VIEW cortex.v_spending WITH (security_invoker = true) AS
	SELECT log, version, purpose, tenant, context_id, turn_id, spent, model, input_tokens, output_tokens, cached_tokens, cost, estimated FROM cortex.spending;
CREATE VIEW cortex.v_tokens_daily WITH (security_invoker = true) AS
	SELECT tenant, (spent AT TIME ZONE 'UTC')::date AS day, model, count(*) AS calls, sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
		sum(cached_tokens)::bigint AS cached_tokens, bool_or(estimated) AS estimated FROM cortex.spending GROUP BY 1, 2, 3;
CREATE VIEW cortex.v_cost_daily WITH (security_invoker = true) AS
	SELECT tenant, (spent AT TIME ZONE 'UTC')::date AS day, model, purpose, sum(cost) AS cost FROM cortex.spending GROUP BY 1, 2, 3, 4;
CREATE VIEW cortex.v_agent_success WITH (security_invoker = true) AS
	SELECT tenant, agent, (created AT TIME ZONE 'UTC')::date AS day, count(*) AS tasks, count(*) FILTER (WHERE state = 'TASK_STATE_COMPLETED') AS completed,
		count(*) FILTER (WHERE state IN ('TASK_STATE_FAILED', 'TASK_STATE_REJECTED')) AS failed, count(*) FILTER (WHERE state = 'TASK_STATE_CANCELED') AS canceled,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM ended - sent)::double precision) AS p50_seconds,
		percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM ended - sent)::double precision) AS p95_seconds
	FROM cortex.tasks GROUP BY 1, 2, 3;
CREATE VIEW cortex.v_agents WITH (security_invoker = true) AS
	SELECT tenant, agent_id, state, skills, tags, registered, last_heartbeat, gone, card FROM cortex.agents;
CREATE VIEW cortex.v_capabilities WITH (security_invoker = true) AS
	SELECT tenant, skill AS capability, array_agg(agent_id ORDER BY agent_id) AS agents FROM cortex.agents, unnest(skills) AS skill WHERE gone IS NULL GROUP BY 1, 2;
CREATE VIEW cortex.v_events WITH (security_invoker = true) AS
	SELECT stored AS at, event_type, tenant, context_id, turn_id, task_id, sender AS agent_id, trace_id, body AS detail FROM cortex.entries
	UNION ALL
	SELECT created, 'task.created', tenant, context_id, turn_id, task_id, agent, NULL, jsonb_build_object('skill', skill) FROM cortex.tasks
	UNION ALL
	SELECT sent, 'task.assigned', tenant, context_id, turn_id, task_id, agent, NULL, jsonb_build_object('skill', skill, 'attempts', attempts) FROM cortex.tasks WHERE sent IS NOT NULL
	UNION ALL
	SELECT ended, CASE state WHEN 'TASK_STATE_COMPLETED' THEN 'task.completed' WHEN 'TASK_STATE_CANCELED' THEN 'task.canceled' ELSE 'task.failed' END,
		tenant, context_id, turn_id, task_id, agent, NULL, jsonb_build_object('skill', skill, 'reason', reason) FROM cortex.tasks WHERE ended IS NOT NULL
	UNION ALL
	SELECT at, event, tenant, NULL, NULL, NULL, agent_id, NULL, detail FROM cortex.agent_events;
CREATE VIEW cortex.v_quarantine WITH (security_invoker = true) AS
	SELECT log, version, stored, tenant, context_id, reason, raw FROM cortex.quarantine;

-- share makes the role cortex_read, which may read the views, and what is behind them as far as the rows' tenants allow. Roles belong to all databases of a
-- server, so it may be there.
CREATE FUNCTION cortex.share() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE v text;
BEGIN
	IF to_regrole('cortex_read') IS NULL THEN
		BEGIN
			CREATE ROLE cortex_read NOLOGIN;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
		END;
	END IF;
	GRANT USAGE ON SCHEMA cortex TO cortex_read;
	FOREACH v IN ARRAY ARRAY['entries', 'quarantine', 'conversations', 'turns', 'tasks', 'spending', 'agents', 'agent_events',
		'v_entries', 'v_conversations', 'v_turns', 'v_tasks', 'v_spending', 'v_tokens_daily', 'v_cost_daily', 'v_agent_success', 'v_agents', 'v_capabilities',
		'v_events', 'v_quarantine'] LOOP
		EXECUTE format('GRANT SELECT ON cortex.%I TO cortex_read', v);
	END LOOP;
	GRANT EXECUTE ON FUNCTION cortex.readable() TO cortex_read;
END $$;
REVOKE ALL ON FUNCTION cortex.allow(text, text), cortex.disallow(text, text), cortex.share() FROM PUBLIC;

-- Whoever owns the database need not be allowed to make roles: then an administrator makes it, by cortex.allow.
DO $$
BEGIN
	PERFORM cortex.share();
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$;
