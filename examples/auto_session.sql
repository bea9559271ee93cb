-- What auto_session brings on the flights, whose lateness comes in waves: of weather, of holidays, of an airline's bad days.
--
--   python examples/flights_data.py demo_data
--   xpsql run examples/flights.sql -D data=demo_data --warehouse demo_warehouse
--   xpsql run examples/auto_session.sql --warehouse demo_warehouse
--
-- A flight's rates are those before the batch that it is learned in. Both models take a flight's label as known when the next batch
-- of 200 flights, about five hours of a day, is learned.

TRAIN OR REPLACE MODEL late_plain
USING xftrl
IGNORE (day)
WITH (batch_size = 200)
AS SELECT * FROM flights_features;

TRAIN OR REPLACE MODEL late_session
USING xftrl
IGNORE (day)
OPERATORS (auto_session (short = '50 examples', mid = '500 examples', long = '5000 examples'))
WITH (batch_size = 200)
AS SELECT * FROM flights_features;

SELECT 'without auto_session' AS model, round(auc, 4) AS auc, round(logloss, 4) AS logloss, round(pcopc, 3) AS pcopc
FROM ML.EVALUATE(MODEL late_plain)
UNION ALL
SELECT 'with auto_session', round(auc, 4), round(logloss, 4), round(pcopc, 3)
FROM ML.EVALUATE(MODEL late_session);

-- The inputs with the largest weights.
SELECT slot, round(weight, 3) AS weight
FROM ML.WEIGHTS(MODEL late_session)
WHERE slot LIKE '%:ctr_%'
ORDER BY abs(weight) DESC
LIMIT 8;
