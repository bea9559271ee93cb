-- The nine steps of an algorithm in one statement. pooled brings the first and the sixth, smooth an operator of its own.
CREATE TEMPORARY VIEW clicks AS
SELECT id AS seconds, concat('u', id % 50) AS user, concat('i', id % 31) AS item, CAST(sin(id % 50) + cos(id % 31) > 0 AS INT) AS label
FROM range(8000);

TRAIN OR REPLACE MODEL nine_steps
USING pooled (dim = 4, activation = 'gelu')
TIME seconds
OPERATORS (
  safety (max_gradient = 10, max_weight = 20),
  auto_session (short = '1 minute', mid = '10 minutes', long = '1 hour'),
  gradient_average (mode = 'sqrt'),
  staleness_discount (mode = 'inverse'),
  smooth (keep = 0.2),
  regularize (penalty = 'l2', strength = 1e-5),
  decay (half_life = '30 days'),
  ftrl (alpha = 0.2))
EVALUATE EVERY 15 BATCHES ON 5 BATCHES
WITH (batch_size = 100)
AS SELECT * FROM clicks;

SELECT batch, examples, auc, pcopc, violations FROM ML.TRAINING_INFO(MODEL nine_steps);

SELECT auc, logloss, pcopc FROM ML.EVALUATE(MODEL nine_steps);
