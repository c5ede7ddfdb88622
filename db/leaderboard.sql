-- The leaderboard: correct kernels and library baselines, ranked by time within (problem, gpu, basis).
-- One row per distinct genome and basis; duplicates and censored times (lower bounds) are left out.
-- The view "leaderboard" of every evoflash database is this query without replays; it reads the same on SQLite and
-- PostgreSQL.
WITH scored AS (
    SELECT
        e.id AS evaluation, e.kind, COALESCE(g.family, e.name) AS name, e.genome_id, g.values_json,
        e.score_us, e.protocol, e.energy_mj, e.bound, e.model_version, e.created,
        -- One number has no spread; an older evoflash stored an estimate as one sample of no width.
        CASE WHEN e.n > 1 AND e.protocol <> 'model' THEN e.p10_us END AS p10_us,
        CASE WHEN e.n > 1 AND e.protocol <> 'model' THEN e.p90_us END AS p90_us,
        CASE WHEN e.protocol = 'model' THEN 0 ELSE e.n END AS n, g.version AS family_version,
        r.id AS run, r.problem, r.gpu, r.basis, r.seed, r.reported_flops, r.llm,
        -- What made it: versions, operators and extensions with their digests, kernels of the archive that its run
        -- started from, runs that it learnt from. A JSON object, put together as both databases can.
        '{"evoflash": "' || r.evoflash_version || '", "archive": ' || r.archive_json
            || ', "learns_from": ' || r.learns_from_json || ', "learns_from_shipped": ' || r.learns_from_shipped_json
            || ', "environment": ' || r.environment_json || '}' AS provenance_json,
        -- As evoflash/evaluation.py names a search.
        r.strategy
            || CASE WHEN r.preset = '' THEN '' ELSE ':' || r.preset END
            || CASE WHEN r.population = '' THEN '' ELSE ':' || r.population END
            || CASE WHEN r.from_archive THEN '+archive' ELSE '' END
            || CASE WHEN r.without_transfer THEN '-transfer' ELSE '' END
            || CASE WHEN r.most_seeds < 0 THEN '' ELSE '-seeds=' || r.most_seeds END
            || CASE WHEN r.llm = '' THEN '' ELSE '+llm=' || r.llm END
            || CASE WHEN r.family = '' THEN '' ELSE '/' || r.family END AS strategy,
        -- Estimates of another model, or for another description of the GPU, are no rivals of these; nor are
        -- replays of another recording.
        CASE WHEN r.basis <> 'measured' AND e.kind = 'candidate'
             THEN e.model_version || ' ' || r.gpu_hash ELSE '' END AS model
    FROM evaluations AS e
    JOIN runs AS r ON r.id = e.run_id
    LEFT JOIN genomes AS g ON g.id = e.genome_id
    WHERE e.status = 'correct' AND e.score_us > 0 AND e.duplicate_of IS NULL AND NOT e.censored
),
latest AS (
    SELECT scored.*, FIRST_VALUE(model) OVER (
        PARTITION BY problem, gpu, basis, kind ORDER BY evaluation DESC
    ) AS latest_model,
    -- What a family wrote before its CUDA changed meaning is no rival of what it writes now.
    MAX(family_version) OVER (PARTITION BY kind, name) AS newest_version
    FROM scored
),
tried AS (
    -- The best of a genome's evaluations: a value that was timed again beats any that was not (winner's curse).
    SELECT latest.*, ROW_NUMBER() OVER (
        PARTITION BY problem, gpu, basis, kind, name, genome_id
        ORDER BY CASE WHEN protocol IN ('final-cold', 'final-cold-boost') THEN 0 ELSE 1 END, score_us, evaluation
    ) AS attempt
    FROM latest
    WHERE model = latest_model AND (family_version IS NULL OR family_version = newest_version)
),
rivals AS (
    SELECT run, name, score_us, ROW_NUMBER() OVER (PARTITION BY run ORDER BY score_us, evaluation) AS place
    FROM scored
    WHERE kind = 'baseline'
),
compiled AS (
    SELECT evaluation_id, MAX(registers) AS registers, MAX(spill_bytes) AS spill_bytes,
        MAX(smem_static_bytes) AS smem_static_bytes
    FROM builds
    WHERE ok
    GROUP BY evaluation_id
),
asked AS (
    -- Kernels that a language model proposed, and the first request of the run that has them in its answer.
    SELECT l.run_id, l.genome_id, MIN(x.position) + 1 AS request
    FROM lineage AS l JOIN exchanges AS x ON x.run_id = l.run_id
    WHERE l.operator = 'language_model'
        AND REPLACE(x.edits_json, '"child":"' || l.genome_id || '"', '') <> x.edits_json
    GROUP BY l.run_id, l.genome_id
),
judged AS (
    SELECT evaluation_id, MAX(rel_l2) AS rel_l2 FROM verdicts GROUP BY evaluation_id
)
SELECT
    RANK() OVER (PARTITION BY t.problem, t.gpu, t.basis ORDER BY t.score_us) AS rank,
    t.problem, t.gpu, t.basis, t.kind, t.name, t.genome_id,
    t.family_version, t.score_us, t.p10_us, t.p90_us, t.protocol, t.n,
    v.name AS speedup_vs,                 -- the fastest baseline of the same run
    v.score_us / t.score_us AS speedup,
    t.reported_flops / t.score_us / 1e6 AS tflops,
    c.registers, c.spill_bytes, c.smem_static_bytes, t.bound, t.model_version,
    j.rel_l2,                             -- the worst of all its checks
    t.energy_mj,                          -- of a call; NULL where it was not measured
    t.strategy, t.seed, t.run, t.evaluation, t.values_json, t.created, t.provenance_json,
    a.request AS llm_request,             -- of the run's language model, from 1 on; NULL: it did not propose it
    CASE WHEN a.request IS NOT NULL THEN t.llm END AS llm
FROM tried AS t
LEFT JOIN rivals AS v ON v.run = t.run AND v.place = 1 AND t.kind = 'candidate'
LEFT JOIN compiled AS c ON c.evaluation_id = t.evaluation
LEFT JOIN judged AS j ON j.evaluation_id = t.evaluation
LEFT JOIN asked AS a ON a.run_id = t.run AND a.genome_id = t.genome_id
WHERE t.attempt = 1
ORDER BY t.problem, t.gpu, t.basis, rank, t.evaluation;
