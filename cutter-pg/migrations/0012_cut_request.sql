-- Cut requests (spec 5): the request, its transitions, the guards of both and of the staging
-- area, and what moves them. The functions with the specification's own signatures are in the
-- next step; those here take ids and time from their caller. Rules raise CUC10 with their name
-- first, as the core words it; a move that the table does not have raises CUC09.
--
-- Staging records of requests have no document_id: a document's base state and backup hold what
-- stands of the document, and a request that is copied or cleaned up meanwhile is no drift of it.

-- The role that reads files of the server for fn_cut_copy_to_staging, and does nothing else. Roles
-- belong to the server, so it is usually there; what only a superuser may grant stays away
-- otherwise, and that way of copying with it.
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'cutter_copy') THEN
        CREATE ROLE cutter_copy NOLOGIN;
    END IF;
    IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        IF NOT pg_has_role('cutter_copy', 'pg_read_server_files', 'MEMBER') THEN
            GRANT pg_read_server_files TO cutter_copy;
        END IF;
        GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint) TO cutter_copy;
    END IF;
END
$do$;

CREATE SCHEMA cutter_queue AUTHORIZATION cutter_owner;
COMMENT ON SCHEMA cutter_queue IS 'What is to be done, as signals: ids and nothing else.';

GRANT CREATE ON SCHEMA public TO cutter_owner;
SET ROLE cutter_owner;

CREATE TABLE public.cut_request (
    cut_request_id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    source_ref                 text NOT NULL,
    source_kind                text NOT NULL DEFAULT 'kb_document',
    requested_by               text NOT NULL,
    requested_at               timestamptz NOT NULL DEFAULT now(),
    status                     text NOT NULL DEFAULT 'requested' CHECK (status IN ('requested', 'copied',
        'mark_in_progress', 'marked', 'mark_verified', 'mark_rejected', 'cut_in_progress', 'cut_done',
        'cut_verified', 'cut_failed', 'completed', 'cleanup_scheduled', 'cleaned')),
    source_path                text,
    source_hash                text,
    source_bytes               bigint,
    copy_staging_record_id     uuid REFERENCES iu_core.iu_staging_record (staging_record_id),
    copied_at                  timestamptz,
    manifest_staging_record_id uuid REFERENCES iu_core.iu_staging_record (staging_record_id),
    manifest_digest            text,
    marked_at                  timestamptz,
    mark_verified_at           timestamptz,
    mark_verdict               text CHECK (mark_verdict IN ('approved', 'rejected')),
    mark_approval_doc_id       text,
    cut_run_id                 uuid,
    cut_done_at                timestamptz,
    cut_verified_at            timestamptz,
    cut_verdict                text CHECK (cut_verdict IN ('verified', 'failed')),
    completed_at               timestamptz,
    cleanup_scheduled_at       timestamptz,
    cleaned_at                 timestamptz,
    metadata                   jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE public.cut_request IS
    'One customer request, from before the copy to after the cleanup. Never removed; moved by functions alone.';
CREATE INDEX cut_request_status ON public.cut_request (status);
CREATE INDEX cut_request_source_ref ON public.cut_request (source_ref);
CREATE INDEX cut_request_requested_at ON public.cut_request (requested_at DESC);
-- For pages by key, all, of a status, of a source.
CREATE INDEX cut_request_page ON public.cut_request (requested_at, cut_request_id);
CREATE INDEX cut_request_status_page ON public.cut_request (status, requested_at, cut_request_id);
CREATE INDEX cut_request_source_page ON public.cut_request (source_ref, requested_at, cut_request_id);
-- A run cuts for one request, and finds it.
CREATE UNIQUE INDEX cut_request_run ON public.cut_request (cut_run_id) WHERE cut_run_id IS NOT NULL;
CREATE INDEX cut_request_due ON public.cut_request (cleanup_scheduled_at, cut_request_id)
    WHERE status = 'cleanup_scheduled';

CREATE TABLE public.cut_request_transition (
    transition_id  bigserial PRIMARY KEY,
    cut_request_id uuid NOT NULL REFERENCES public.cut_request,
    from_status    text,
    to_status      text NOT NULL,
    actor          text NOT NULL,
    occurred_at    timestamptz NOT NULL DEFAULT now(),
    detail         jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE public.cut_request_transition IS
    'One row per move of a request; from_status is NULL for the first. Append-only.';
CREATE INDEX cut_request_transition_request ON public.cut_request_transition (cut_request_id, occurred_at);

CREATE TABLE cutter_queue.job_signal (
    signal_id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    signal         text COLLATE "C" NOT NULL
        CHECK (signal IN ('copy', 'mark', 'verify_mark', 'cut', 'verify_cut', 'cleanup')),
    cut_request_id uuid NOT NULL REFERENCES public.cut_request,
    payload        jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object' AND octet_length(payload::text) <= 512
        AND payload - ARRAY['signal', 'cut_request_id', 'run_id'] = '{}'),
    enqueued_by    text NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    taken_by       text,
    taken_at       timestamptz,
    finished_at    timestamptz
);
COMMENT ON TABLE cutter_queue.job_signal IS
    'What a worker is asked to do. The payload holds ids and the signal''s name; everything else stands in the request.';
CREATE UNIQUE INDEX job_signal_open ON cutter_queue.job_signal (cut_request_id, signal) WHERE finished_at IS NULL;
CREATE INDEX job_signal_next ON cutter_queue.job_signal (enqueued_at, signal_id) WHERE finished_at IS NULL;

-- The folder from which the server may copy by itself. No row: it may not. The
-- owner alone writes it.
CREATE TABLE cutter_governance.copy_folder (
    is_set boolean PRIMARY KEY DEFAULT true CHECK (is_set),
    folder text NOT NULL CHECK (starts_with(folder, '/') AND folder !~ '(^|/)[.][.]?(/|$)')
);
COMMENT ON TABLE cutter_governance.copy_folder IS
    'Set by the owner alone. The folder must be writable by the server''s administrator alone: SQL sees neither symlinks nor FIFOs.';

-- The staging records of a request, and the rejected marks among them that are to go.
CREATE INDEX iu_staging_record_request ON iu_core.iu_staging_record ((metadata ->> 'cut_request_id'))
    WHERE metadata ? 'cut_request_id';
CREATE INDEX iu_staging_record_expired ON iu_core.iu_staging_record (expires_at, staging_record_id)
    WHERE lifecycle_status = 'expired';

INSERT INTO public.dot_config (config_key, config_value, description)
SELECT 'vocab.cut_request_status.' || w.word, lpad(w.place::text, 2, '0'), 'cut_request_status'
FROM unnest(ARRAY['requested', 'copied', 'mark_in_progress', 'marked', 'mark_verified', 'mark_rejected',
    'cut_in_progress', 'cut_done', 'cut_verified', 'cut_failed', 'completed', 'cleanup_scheduled', 'cleaned'])
    WITH ORDINALITY AS w(word, place);

CREATE TRIGGER trg_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON public.cut_request_transition
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON public.cut_request
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON cutter_queue.job_signal
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_removal BEFORE DELETE OR TRUNCATE ON iu_core.iu_staging_record
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();
CREATE TRIGGER trg_no_edit BEFORE UPDATE OR TRUNCATE ON iu_core.iu_staging_payload
    FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only();

-- The targets of a status, as the table of the core has them (spec 5).
CREATE FUNCTION cutter_governance.fn_cut_request_targets(p_from text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_from
        WHEN 'requested' THEN ARRAY['copied']
        WHEN 'copied' THEN ARRAY['mark_in_progress']
        WHEN 'mark_in_progress' THEN ARRAY['marked', 'mark_rejected']
        WHEN 'marked' THEN ARRAY['mark_verified', 'mark_rejected']
        WHEN 'mark_verified' THEN ARRAY['cut_in_progress']
        WHEN 'mark_rejected' THEN ARRAY['mark_in_progress']
        WHEN 'cut_in_progress' THEN ARRAY['cut_done', 'cut_failed']
        WHEN 'cut_done' THEN ARRAY['cut_verified', 'cut_failed']
        WHEN 'cut_verified' THEN ARRAY['completed']
        WHEN 'completed' THEN ARRAY['cleanup_scheduled']
        WHEN 'cleanup_scheduled' THEN ARRAY['cleaned']
        ELSE ARRAY[]::text[]
    END
$fn$;

CREATE FUNCTION cutter_governance.fn_cut_request_assert(p_from text, p_to text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF p_to = ANY (cutter_governance.fn_cut_request_targets(p_from)) THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'illegal cut_request transition %->% (legal=%)', p_from, p_to,
        array_to_string(cutter_governance.fn_cut_request_targets(p_from), ',') USING ERRCODE = 'CUC09';
END
$fn$;

-- The statuses in which a signal means something.
CREATE FUNCTION cutter_governance.fn_cut_signal_statuses(p_signal text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $fn$
    SELECT CASE p_signal
        WHEN 'copy' THEN ARRAY['requested']
        WHEN 'mark' THEN ARRAY['copied', 'mark_rejected']
        WHEN 'verify_mark' THEN ARRAY['marked']
        WHEN 'cut' THEN ARRAY['mark_verified', 'cut_in_progress', 'cut_done', 'cut_verified']
        WHEN 'verify_cut' THEN ARRAY['cut_in_progress', 'cut_done']
        WHEN 'cleanup' THEN ARRAY['cleanup_scheduled']
        ELSE ARRAY[]::text[]
    END
$fn$;

-- A request moves along a legal edge, keeps what it was asked for, and what was once said of it;
-- only a mark may be made again.
CREATE FUNCTION cutter_governance.fn_cut_request_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_again text[] := ARRAY['status', 'metadata'];
    v_changed text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'requested' THEN
            RAISE EXCEPTION 'cut request % must begin as requested, observed %', NEW.cut_request_id, NEW.status
                USING ERRCODE = 'CU003';
        END IF;
        RETURN NEW;
    END IF;
    PERFORM cutter_governance.fn_cut_request_assert(OLD.status, NEW.status);
    IF NEW.status IN ('mark_in_progress', 'marked', 'mark_rejected', 'mark_verified') THEN
        v_again := v_again || ARRAY['manifest_staging_record_id', 'manifest_digest', 'marked_at', 'mark_verdict',
            'mark_approval_doc_id'];
    END IF;
    SELECT string_agg(o.key, ', ' ORDER BY o.key) INTO v_changed
    FROM jsonb_each(to_jsonb(OLD)) o JOIN jsonb_each(to_jsonb(NEW)) n USING (key)
    WHERE o.value <> n.value AND o.value <> 'null' AND NOT o.key = ANY (v_again);
    IF v_changed IS NOT NULL OR NOT NEW.metadata @> OLD.metadata THEN
        RAISE EXCEPTION 'cut request %: % may not change any more', OLD.cut_request_id,
            coalesce(v_changed, 'metadata') USING ERRCODE = 'CU003';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_cut_request_guard BEFORE INSERT OR UPDATE ON public.cut_request
    FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_cut_request_guard();

-- Status and timeline agree, checked as those of the backlog are: every status is entered as often
-- as it is left, but for the present one, which is entered once more.
CREATE FUNCTION cutter_governance.fn_cut_request_agreement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
    v_end text[];
BEGIN
    SELECT q.status INTO v_status FROM public.cut_request q WHERE q.cut_request_id = NEW.cut_request_id;
    SELECT array_agg(s.status || '=' || s.balance ORDER BY s.status) INTO v_end
    FROM (
        SELECT m.status, sum(m.step) AS balance
        FROM public.cut_request_transition t
        CROSS JOIN LATERAL (VALUES (t.to_status, 1), (t.from_status, -1)) AS m(status, step)
        WHERE t.cut_request_id = NEW.cut_request_id AND m.status IS NOT NULL
        GROUP BY m.status
        HAVING sum(m.step) <> 0
    ) s;
    IF v_end IS DISTINCT FROM ARRAY[v_status || '=1'] THEN
        RAISE EXCEPTION 'cut request %: status % and its timeline disagree (it ends in %)', NEW.cut_request_id,
            v_status, coalesce(array_to_string(v_end, ','), 'nothing') USING ERRCODE = 'CU005';
    END IF;
    RETURN NULL;
END
$fn$;
CREATE CONSTRAINT TRIGGER trg_cut_request_agreement AFTER INSERT OR UPDATE ON public.cut_request
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_cut_request_agreement();
CREATE CONSTRAINT TRIGGER trg_cut_request_agreement AFTER INSERT ON public.cut_request_transition
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cutter_governance.fn_cut_request_agreement();

-- A staging record changes its lifecycle alone: staged, approved, consumed, cleaned; or staged,
-- expired (a rejected mark), cleaned. Its bytes go when it is cleaned, and never into a vector store.
CREATE FUNCTION iu_core.fn_staging_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_old iu_core.iu_staging_record;
BEGIN
    IF NOT NEW.vector_excluded THEN
        RAISE EXCEPTION 'staging record %: vector_excluded is true, always', NEW.staging_record_id
            USING ERRCODE = 'CU003';
    END IF;
    IF TG_OP = 'INSERT' THEN
        RETURN NEW;
    END IF;
    v_old := OLD;
    v_old.lifecycle_status := NEW.lifecycle_status;
    v_old.approved_at := coalesce(OLD.approved_at, NEW.approved_at);
    v_old.consumed_at := coalesce(OLD.consumed_at, NEW.consumed_at);
    v_old.expires_at := coalesce(OLD.expires_at, NEW.expires_at);
    v_old.cleaned_at := coalesce(OLD.cleaned_at, NEW.cleaned_at);
    IF v_old IS DISTINCT FROM NEW
        OR NOT (OLD.lifecycle_status || ' ' || NEW.lifecycle_status) = ANY (ARRAY['staged approved', 'staged expired',
            'approved consumed', 'consumed consumed', 'consumed cleaned', 'expired cleaned'])
    THEN
        RAISE EXCEPTION 'staging record % is % and may not become that', OLD.staging_record_id, OLD.lifecycle_status
            USING ERRCODE = 'CU003';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_staging_guard BEFORE INSERT OR UPDATE ON iu_core.iu_staging_record
    FOR EACH ROW EXECUTE FUNCTION iu_core.fn_staging_guard();

CREATE FUNCTION iu_core.fn_staging_payload_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    IF NOT EXISTS (SELECT FROM iu_core.iu_staging_record r
                   WHERE r.staging_record_id = OLD.staging_record_id AND r.lifecycle_status = 'cleaned') THEN
        RAISE EXCEPTION 'the bytes of staging record % go when it is cleaned', OLD.staging_record_id
            USING ERRCODE = 'CU003';
    END IF;
    RETURN OLD;
END
$fn$;
CREATE TRIGGER trg_staging_payload_guard BEFORE DELETE ON iu_core.iu_staging_payload
    FOR EACH ROW EXECUTE FUNCTION iu_core.fn_staging_payload_guard();

-- A signal is taken and finished, and never becomes another.
CREATE FUNCTION cutter_queue.fn_job_signal_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_old cutter_queue.job_signal := OLD;
BEGIN
    v_old.taken_by := NEW.taken_by;
    v_old.taken_at := NEW.taken_at;
    v_old.finished_at := coalesce(OLD.finished_at, NEW.finished_at);
    IF v_old IS DISTINCT FROM NEW OR OLD.finished_at IS NOT NULL THEN
        RAISE EXCEPTION 'signal %: it may be taken and finished, and nothing else', OLD.signal_id
            USING ERRCODE = 'CU003';
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER trg_job_signal_guard BEFORE UPDATE ON cutter_queue.job_signal
    FOR EACH ROW EXECUTE FUNCTION cutter_queue.fn_job_signal_guard();

-- Enqueues a signal, once while it is open: gives the one that stands.
CREATE FUNCTION cutter_queue.fn_job_enqueue(
    p_signal text, p_payload jsonb, p_actor text, p_at timestamptz DEFAULT now())
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request uuid := p_payload ->> 'cut_request_id';
    v_id uuid;
BEGIN
    INSERT INTO cutter_queue.job_signal AS j (signal, cut_request_id, payload, enqueued_by, enqueued_at)
    VALUES (p_signal, v_request, p_payload, p_actor, p_at)
    ON CONFLICT (cut_request_id, signal) WHERE finished_at IS NULL DO NOTHING
    RETURNING j.signal_id INTO v_id;
    IF v_id IS NULL THEN
        SELECT j.signal_id INTO v_id FROM cutter_queue.job_signal j
        WHERE j.cut_request_id = v_request AND j.signal = p_signal AND j.finished_at IS NULL;
    END IF;
    RETURN v_id;
END
$fn$;

-- A worker's share of the open signals, first those that waited longest since they were enqueued or
-- last taken. One that was taken and not finished is taken again once it is stale.
CREATE FUNCTION cutter_queue.fn_job_signal_take(
    p_names text[], p_stale_before timestamptz, p_limit integer, p_actor text, p_at timestamptz)
RETURNS SETOF cutter_queue.job_signal
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
    WITH chosen AS MATERIALIZED (
        SELECT j.signal_id FROM cutter_queue.job_signal j
        WHERE j.finished_at IS NULL AND j.signal = ANY (p_names)
            AND (j.taken_at IS NULL OR j.taken_at < p_stale_before)
        ORDER BY coalesce(j.taken_at, j.enqueued_at), j.signal_id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE cutter_queue.job_signal j SET taken_by = p_actor, taken_at = p_at
        FROM chosen c WHERE j.signal_id = c.signal_id
        RETURNING j.*
    )
    SELECT t.* FROM taken t ORDER BY t.enqueued_at, t.signal_id
$fn$;

CREATE FUNCTION cutter_queue.fn_job_signal_finish(p_signal_id uuid, p_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
    UPDATE cutter_queue.job_signal j SET finished_at = p_at
    WHERE j.signal_id = p_signal_id AND j.finished_at IS NULL;
    RETURN FOUND;
END
$fn$;

-- Signals of a request, in the statuses in which they mean something.
CREATE FUNCTION cutter_governance.fn_cut_request_notify(
    p_signal text, p_cut_request_id uuid, p_actor text, p_payload jsonb, p_at timestamptz)
RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_status text;
BEGIN
    SELECT q.status INTO v_status FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no cut request %', p_cut_request_id USING ERRCODE = 'CUN09';
    END IF;
    IF NOT v_status = ANY (cutter_governance.fn_cut_signal_statuses(p_signal)) THEN
        RAISE EXCEPTION 'signal %: cut request % is %, expected %', p_signal, p_cut_request_id, v_status,
            coalesce(nullif(array_to_string(cutter_governance.fn_cut_signal_statuses(p_signal), ' or '), ''),
                'one of the signals copy, mark, verify_mark, cut, verify_cut, cleanup') USING ERRCODE = 'CUC11';
    END IF;
    RETURN cutter_queue.fn_job_enqueue(p_signal,
        coalesce(p_payload, '{}') || jsonb_build_object('signal', p_signal, 'cut_request_id', p_cut_request_id),
        p_actor, p_at);
END
$fn$;

CREATE FUNCTION cutter_governance.fn_cut_request_lock(p_cut_request_id uuid) RETURNS public.cut_request
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request;
BEGIN
    SELECT q.* INTO v_request FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no cut request %', p_cut_request_id USING ERRCODE = 'CUN09';
    END IF;
    RETURN v_request;
END
$fn$;

-- A legal edge, compare-and-set, the transition row, and the end of signals that are over. p_set
-- holds the columns that come with the move; those that follow from the status are set by it.
-- Nobody is granted it.
CREATE FUNCTION cutter_governance.fn_cut_request_move(
    p_cut_request_id uuid, p_from text, p_to text, p_set jsonb, p_actor text, p_detail jsonb, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_new public.cut_request;
BEGIN
    PERFORM cutter_governance.fn_cut_request_assert(p_from, p_to);
    SELECT q.* INTO v_new FROM public.cut_request q WHERE q.cut_request_id = p_cut_request_id;
    v_new := jsonb_populate_record(v_new, coalesce(p_set, '{}') || CASE p_to
        WHEN 'copied' THEN jsonb_build_object('copied_at', p_at)
        WHEN 'mark_in_progress' THEN jsonb_build_object('mark_verdict', NULL, 'mark_approval_doc_id', NULL)
        WHEN 'marked' THEN jsonb_build_object('marked_at', p_at)
        WHEN 'mark_verified' THEN jsonb_build_object('mark_verified_at', p_at, 'mark_verdict', 'approved')
        WHEN 'mark_rejected' THEN jsonb_build_object('mark_verdict', 'rejected')
        WHEN 'cut_done' THEN jsonb_build_object('cut_done_at', p_at)
        WHEN 'cut_verified' THEN jsonb_build_object('cut_verified_at', p_at, 'cut_verdict', 'verified')
        WHEN 'cut_failed' THEN jsonb_build_object('cut_verdict', 'failed')
        WHEN 'completed' THEN jsonb_build_object('completed_at', p_at)
        WHEN 'cleanup_scheduled' THEN jsonb_build_object('cleanup_scheduled_at', p_at + interval '360 hours')
        WHEN 'cleaned' THEN jsonb_build_object('cleaned_at', p_at)
        ELSE '{}' END);
    UPDATE public.cut_request q SET status = p_to,
        source_path = v_new.source_path, source_hash = v_new.source_hash, source_bytes = v_new.source_bytes,
        copy_staging_record_id = v_new.copy_staging_record_id, copied_at = v_new.copied_at,
        manifest_staging_record_id = v_new.manifest_staging_record_id, manifest_digest = v_new.manifest_digest,
        marked_at = v_new.marked_at, mark_verified_at = v_new.mark_verified_at, mark_verdict = v_new.mark_verdict,
        mark_approval_doc_id = v_new.mark_approval_doc_id, cut_run_id = v_new.cut_run_id,
        cut_done_at = v_new.cut_done_at, cut_verified_at = v_new.cut_verified_at, cut_verdict = v_new.cut_verdict,
        completed_at = v_new.completed_at, cleanup_scheduled_at = v_new.cleanup_scheduled_at,
        cleaned_at = v_new.cleaned_at, metadata = v_new.metadata
    WHERE q.cut_request_id = p_cut_request_id AND q.status = p_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cut request %: status is not % any more', p_cut_request_id, p_from USING ERRCODE = 'CUC04';
    END IF;
    INSERT INTO public.cut_request_transition (cut_request_id, from_status, to_status, actor, occurred_at, detail)
    VALUES (p_cut_request_id, p_from, p_to, p_actor, p_at, jsonb_strip_nulls(coalesce(p_detail, '{}')));
    UPDATE cutter_queue.job_signal j SET finished_at = p_at
    WHERE j.cut_request_id = p_cut_request_id AND j.finished_at IS NULL
        AND NOT p_to = ANY (cutter_governance.fn_cut_signal_statuses(j.signal));
END
$fn$;

-- A request follows its run: called inside the run's own transactions (p_effect), and afterwards
-- with the reason why the run ended. What the run committed is read here, never believed. Moves one
-- legal edge after the other; without a request that names the run it is one look into an index.
CREATE FUNCTION cutter_governance.fn_cut_request_follow(
    p_cut_run_id uuid, p_run_id text, p_effect text, p_ended text, p_actor text, p_at timestamptz)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
    v_request public.cut_request;
    v_cut uuid;
    v_passed boolean;
    v_is_over boolean;
    v_to text;
    v_moved boolean := false;
BEGIN
    SELECT q.* INTO v_request FROM public.cut_request q WHERE q.cut_run_id = p_cut_run_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT c.change_set_id, r.passed INTO v_cut, v_passed
    FROM cutter_governance.cut_change_set c
    LEFT JOIN cutter_governance.verify_result r ON r.change_set_id = c.change_set_id
    WHERE c.run_id = p_run_id AND c.kind = 'cut';
    v_is_over := p_ended IS NOT NULL OR EXISTS (
        SELECT FROM cutter_governance.review_approval a
        JOIN cutter_governance.approval_use u USING (approval_id)
        WHERE a.run_id = p_run_id AND u.effect = 'void' AND a.decision = 'approve');
    LOOP
        v_to := CASE
            WHEN v_request.status = 'cut_in_progress' AND v_cut IS NOT NULL THEN 'cut_done'
            WHEN v_request.status = 'cut_done' AND v_passed THEN 'cut_verified'
            WHEN v_request.status = 'cut_done' AND v_passed IS NOT NULL
                OR v_request.status IN ('cut_in_progress', 'cut_done') AND v_is_over THEN 'cut_failed' END;
        EXIT WHEN v_to IS NULL;
        PERFORM cutter_governance.fn_cut_request_move(v_request.cut_request_id, v_request.status, v_to, NULL, p_actor,
            jsonb_build_object('run_id', p_run_id, 'effect', p_effect, 'change_set_id', v_cut,
                'reason', CASE WHEN v_to = 'cut_failed' THEN p_ended END), p_at);
        v_request.status := v_to;
        v_moved := true;
    END LOOP;
    IF NOT v_moved AND p_effect IN ('leg_a', 'write_verify') THEN
        PERFORM cutter_governance.fn_cut_request_assert(v_request.status, CASE WHEN p_effect = 'leg_a' THEN 'cut_done'
            WHEN v_passed THEN 'cut_verified' ELSE 'cut_failed' END);
    END IF;
    RETURN v_moved;
END
$fn$;

RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM cutter_owner;
