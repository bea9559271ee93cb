-- Which flights arrive more than 15 minutes late? All 336,776 flights that left New York in 2013, with weather and planes.
--
--   python examples/flights_data.py demo_data
--   xpsql run examples/flights.sql -D data=demo_data --warehouse demo_warehouse
--
-- The script prepares features, trains on January, continues month by month, measures, predicts, exports, and looks inside.


-- 1. The data. Missing values are written NA.

CREATE TEMPORARY VIEW flights USING csv
OPTIONS (path '${data}/flights.csv', header 'true', inferSchema 'true', nullValue 'NA');

CREATE TEMPORARY VIEW weather USING csv
OPTIONS (path '${data}/weather.csv', header 'true', inferSchema 'true', nullValue 'NA');

CREATE TEMPORARY VIEW planes USING csv
OPTIONS (path '${data}/planes.csv', header 'true', inferSchema 'true', nullValue 'NA');

CREATE TEMPORARY VIEW airlines USING csv
OPTIONS (path '${data}/airlines.csv', header 'true', inferSchema 'true', nullValue 'NA');

SELECT 'Flights that left New York in 2013. Late: more than 15 minutes.' AS `1. The data`;

SELECT count(*) AS flights,
       count(arr_delay) AS arrived,
       round(avg(CAST(arr_delay > 15 AS INT)), 3) AS share_late,
       count(DISTINCT carrier) AS carriers,
       count(DISTINCT tailnum) AS planes,
       count(DISTINCT dest) AS destinations
FROM flights;


-- 2. Features: what is known before departure. dep_time, dep_delay, arr_time and air_time are not: they would leak the answer.
-- Cancelled and diverted flights (9,430) have no arr_delay. Whether they would have been late is unknown: they are left out.
--
-- The type of a column says how it is learned from. STRING and INT are categories, each value a feature of its own, and NULL
-- is one too. DOUBLE is a number. So wind_speed is a number here, and wind a category of its steps of 4 miles per hour.
-- The table is written in order of departure, which is the order of learning.

CREATE OR REPLACE TABLE flights_features AS
SELECT CAST(f.arr_delay > 15 AS INT) AS label,
       CAST(f.month AS INT) AS month,
       make_date(f.year, f.month, f.day) AS day,
       -- the flight
       f.carrier,
       f.tailnum,
       f.origin,
       f.dest,
       CAST(f.flight AS STRING) AS flight,
       CAST(f.hour AS INT) AS hour,
       CAST(floor(f.sched_arr_time / 100) AS INT) AS arrival_hour,
       dayofweek(make_date(f.year, f.month, f.day)) AS weekday,
       CAST(f.distance AS DOUBLE) AS distance,
       -- pairs: a weight for each route, not only for its two ends
       concat_ws('-', f.origin, f.dest) AS route,
       concat_ws('-', f.carrier, f.dest) AS carrier_dest,
       concat_ws('-', f.carrier, CAST(f.hour AS STRING)) AS carrier_hour,
       concat_ws('-', f.dest, CAST(f.hour AS STRING)) AS dest_hour,
       concat_ws('-', f.origin, CAST(f.hour AS STRING)) AS origin_hour,
       concat_ws('-', CAST(dayofweek(make_date(f.year, f.month, f.day)) AS STRING), CAST(f.hour AS STRING)) AS weekday_hour,
       -- the plane
       p.manufacturer,
       p.model,
       CAST(f.year - p.year AS INT) AS age,
       CAST(p.engines AS INT) AS engines,
       -- the weather at departure, as numbers
       CAST(w.temp AS DOUBLE) AS temp,
       CAST(w.dewp AS DOUBLE) AS dewp,
       CAST(w.humid AS DOUBLE) AS humid,
       CAST(w.wind_speed AS DOUBLE) AS wind_speed,
       CAST(w.wind_gust AS DOUBLE) AS wind_gust,
       CAST(w.precip AS DOUBLE) AS precip,
       CAST(w.pressure AS DOUBLE) AS pressure,
       CAST(w.visib AS DOUBLE) AS visib,
       -- and in steps
       CAST(floor(w.temp / 5) AS INT) AS temp_step,
       CAST(floor(w.humid / 10) AS INT) AS humid_step,
       CAST(floor(w.wind_speed / 4) AS INT) AS wind_step,
       CAST(floor(w.pressure / 4) AS INT) AS pressure_step,
       CAST(floor(w.visib) AS INT) AS visib_step,
       CAST(ceil(w.precip * 20) AS INT) AS precip_step,
       concat_ws('-', f.origin, CAST(CAST(floor(w.visib) AS INT) AS STRING), CAST(w.precip > 0 AS STRING)) AS origin_visib,
       concat_ws('-', f.origin, CAST(CAST(floor(w.wind_dir / 30) AS INT) AS STRING)) AS origin_wind
FROM flights f
LEFT JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
LEFT JOIN planes p ON f.tailnum = p.tailnum
WHERE f.arr_delay IS NOT NULL
ORDER BY f.time_hour, f.carrier, f.flight;

SELECT 'One row per flight that arrived. No month is like the next: a stormy summer, a calm autumn, a late December.'
       AS `2. Features`;

SELECT month, count(*) AS flights, CAST(avg(label) AS DECIMAL(4, 3)) AS share_late
FROM flights_features GROUP BY month ORDER BY month;


-- 3. Train on January, then continue: each month makes a new version of the model from the one before.
-- The metrics of a training are honest: every example is scored before it is learned from.

SELECT 'Train on January, continue month by month to October: ten versions of one model.' AS `3. Training`;

TRAIN OR REPLACE MODEL late USING xftrl IGNORE (month, day) AS SELECT * FROM flights_features WHERE month = 1;

CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 2;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 3;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 4;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 5;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 6;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 7;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 8;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 9;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 10;


-- 4. How good is each version on the month after its own, and how good would January's be if it had not been continued?
-- PCOPC is the sum of the predictions over the number of late flights: 1 is right, 0.7 predicts too few.

SELECT 'Each version on the month after it, beside version 1 (January only). pcopc = late flights predicted / late flights.'
       AS `4. Month by month`;

WITH continued AS (
  SELECT 2 AS month, 1 AS version, * FROM ML.EVALUATE(MODEL late VERSION 1, (SELECT * FROM flights_features WHERE month = 2))
  UNION ALL
  SELECT 3, 2, * FROM ML.EVALUATE(MODEL late VERSION 2, (SELECT * FROM flights_features WHERE month = 3))
  UNION ALL
  SELECT 4, 3, * FROM ML.EVALUATE(MODEL late VERSION 3, (SELECT * FROM flights_features WHERE month = 4))
  UNION ALL
  SELECT 5, 4, * FROM ML.EVALUATE(MODEL late VERSION 4, (SELECT * FROM flights_features WHERE month = 5))
  UNION ALL
  SELECT 6, 5, * FROM ML.EVALUATE(MODEL late VERSION 5, (SELECT * FROM flights_features WHERE month = 6))
  UNION ALL
  SELECT 7, 6, * FROM ML.EVALUATE(MODEL late VERSION 6, (SELECT * FROM flights_features WHERE month = 7))
  UNION ALL
  SELECT 8, 7, * FROM ML.EVALUATE(MODEL late VERSION 7, (SELECT * FROM flights_features WHERE month = 8))
  UNION ALL
  SELECT 9, 8, * FROM ML.EVALUATE(MODEL late VERSION 8, (SELECT * FROM flights_features WHERE month = 9))
  UNION ALL
  SELECT 10, 9, * FROM ML.EVALUATE(MODEL late VERSION 9, (SELECT * FROM flights_features WHERE month = 10))
  UNION ALL
  SELECT 11, 10, * FROM ML.EVALUATE(MODEL late VERSION 10, (SELECT * FROM flights_features WHERE month = 11))
  UNION ALL
  SELECT 12, 10, * FROM ML.EVALUATE(MODEL late VERSION 10, (SELECT * FROM flights_features WHERE month = 12))
),
january AS (
  SELECT month,
         auc(label, predicted_label) AS auc,
         logloss(label, predicted_label) AS logloss,
         pcopc(label, predicted_label) AS pcopc
  FROM ML.PREDICT(MODEL late VERSION 1, TABLE flights_features)
  GROUP BY month
)
SELECT c.month, c.version, c.examples AS flights,
       CAST(c.auc AS DECIMAL(4, 3)) AS auc,
       CAST(c.logloss AS DECIMAL(4, 3)) AS logloss,
       CAST(c.pcopc AS DECIMAL(4, 2)) AS pcopc,
       CAST(j.auc AS DECIMAL(4, 3)) AS auc_v1,
       CAST(j.logloss AS DECIMAL(4, 3)) AS logloss_v1,
       CAST(j.pcopc AS DECIMAL(4, 2)) AS pcopc_v1
FROM continued c JOIN january j ON c.month = j.month
ORDER BY c.month;


-- 5. The examination: version 10 has seen January to October; November and December are new to it.

SELECT 'Version 10 has seen January to October. These are November and December.' AS `5. The examination`;

SELECT examples AS flights, round(auc, 4) AS auc, round(logloss, 4) AS logloss, round(pcopc, 4) AS pcopc,
       round(normalized_entropy, 4) AS normalized_entropy
FROM ML.EVALUATE(MODEL late VERSION 10, (SELECT * FROM flights_features WHERE month >= 11));

SELECT 'December is late and unlike autumn: too few late flights are predicted (pcopc below 1). CONTINUE catches up:'
       AS `The second half of December`;

CONTINUE MODEL late FROM VERSION 10 AS SELECT * FROM flights_features WHERE month = 11;
CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 12 AND day < DATE'2013-12-16';

WITH second_half AS (SELECT * FROM flights_features WHERE day >= DATE'2013-12-16'),
measured AS (
  SELECT 'October' AS trained_until, 10 AS version, * FROM ML.EVALUATE(MODEL late VERSION 10, TABLE second_half)
  UNION ALL
  SELECT 'November', 11, * FROM ML.EVALUATE(MODEL late VERSION 11, TABLE second_half)
  UNION ALL
  SELECT '15 December', 12, * FROM ML.EVALUATE(MODEL late VERSION 12, TABLE second_half)
)
SELECT trained_until, version,
       CAST(auc AS DECIMAL(4, 3)) AS auc, CAST(logloss AS DECIMAL(4, 3)) AS logloss, CAST(pcopc AS DECIMAL(4, 2)) AS pcopc
FROM measured
ORDER BY version;


-- 6. Predictions are a table: the columns of the query, and predicted_label.

SELECT 'November and December by version 10, in steps of the prediction: what was predicted, what came.' AS `6. Predictions`;

CREATE OR REPLACE TABLE flights_scored AS
SELECT day, carrier, flight, dest, label, predicted_label
FROM ML.PREDICT(MODEL late VERSION 10, (SELECT * FROM flights_features WHERE month >= 11));

SELECT bucketize(predicted_label, array(0.1D, 0.2D, 0.3D, 0.4D, 0.5D, 0.6D)) / 10 AS predicted_at_least,
       count(*) AS flights,
       CAST(avg(predicted_label) AS DECIMAL(4, 3)) AS predicted,
       CAST(avg(label) AS DECIMAL(4, 3)) AS late
FROM flights_scored
GROUP BY 1
ORDER BY 1;


-- 7. A model is rows. Which columns does it lean on, and which values?

SELECT 'The columns with the largest weights, on average over their values.' AS `7. What matters`;

SELECT slot, kind, features, CAST(mean_abs_weight AS DECIMAL(4, 3)) AS mean_abs_weight
FROM ML.FEATURE_INFO(MODEL late)
ORDER BY mean_abs_weight DESC
LIMIT 12;

EXPORT MODEL late TO TABLE late_weights WITH (replace = true);

-- A weight's key is the hash of its column and value, feature_key(slot, value), so exported weights join back to values.
-- Weights add up to the log-odds of a late arrival: exp(weight) multiplies the odds. A weight is what a value adds beside the
-- others of a flight: many flights to some town are late, but the weights of their carrier and hour may say so already.

SELECT 'The six largest weights of carriers, destinations and hours; odds = exp(weight) multiplies the odds to be late.'
       AS `Exported weights, joined to their values`;

WITH given AS (
  SELECT 'carrier' AS slot, carrier AS value, label FROM flights_features
  UNION ALL SELECT 'dest', dest, label FROM flights_features
  UNION ALL SELECT 'hour', CAST(hour AS STRING), label FROM flights_features
),
seen AS (
  SELECT slot, value, feature_key(slot, value) AS key, count(*) AS flights, avg(label) AS share_late
  FROM given
  GROUP BY slot, value
  HAVING count(*) >= 500
),
ranked AS (
  SELECT seen.*, weights.weight, row_number() OVER (PARTITION BY seen.slot ORDER BY abs(weights.weight) DESC) AS place
  FROM seen JOIN late_weights weights ON weights.key = seen.key
)
SELECT ranked.slot, ranked.value, coalesce(airlines.name, '') AS airline, ranked.flights,
       CAST(ranked.share_late AS DECIMAL(4, 3)) AS share_late,
       CAST(ranked.weight AS DECIMAL(4, 3)) AS weight,
       CAST(exp(ranked.weight) AS DECIMAL(4, 2)) AS odds
FROM ranked LEFT JOIN airlines ON ranked.slot = 'carrier' AND ranked.value = airlines.carrier
WHERE ranked.place <= 6
ORDER BY ranked.slot, ranked.weight DESC;


-- 8. All of it is kept: the versions, their metrics, and the statements that made them (SHOW TRAIN MODEL late VERSION 3).

SELECT 'Every version is kept, until it is dropped. The newest is served.' AS `8. Versions`;

SHOW VERSIONS OF MODEL late;
