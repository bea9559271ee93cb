-- Functions whose meaning in DuckDB differs from Spark's, as DuckDB macros. spark_f is what a query's f becomes.
-- typeof(x) is folded when a query is bound, so a branch for another type costs nothing.
-- Parameters of lambdas begin with xpsql_: what a query has in its own lambdas may be an argument here.

-- casts
CREATE MACRO xpsql_scientific(t) AS
  CASE WHEN contains(t, 'e') THEN
    (CASE WHEN contains(split_part(t, 'e', 1), '.') THEN split_part(t, 'e', 1) ELSE split_part(t, 'e', 1) || '.0' END)
      || 'E' || CAST(CAST(split_part(t, 'e', 2) AS INTEGER) AS VARCHAR)
  WHEN starts_with(t, '0.') THEN
    left(ltrim(t[3:], '0'), 1) || '.' || coalesce(nullif(substr(ltrim(t[3:], '0'), 2), ''), '0')
      || 'E-' || CAST(length(t[3:]) - length(ltrim(t[3:], '0')) + 1 AS VARCHAR)
  ELSE
    left(t, 1) || '.' || coalesce(nullif(rtrim(substr(replace(t, '.', ''), 2), '0'), ''), '0')
      || 'E' || CAST(length(split_part(t, '.', 1)) - 1 AS VARCHAR)
  END;
CREATE MACRO xpsql_real_text(t, x) AS
  CASE WHEN x IS NULL THEN NULL WHEN spark_isnan(x) THEN 'NaN'
    WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'Infinity' ELSE '-Infinity' END
    WHEN x = 0 OR (abs(x) >= 0.001 AND abs(x) < 10000000) THEN t
    WHEN x < 0 THEN '-' || xpsql_scientific(t[2:]) ELSE xpsql_scientific(t) END;
CREATE MACRO xpsql_decimal_text(t) AS CASE WHEN starts_with(ltrim(t, '-'), '.') THEN replace(t, '.', '0.') ELSE t END;
CREATE MACRO spark_string(x) AS
  CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN xpsql_real_text(CAST(x AS VARCHAR), TRY_CAST(x AS DOUBLE))
    WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN regexp_replace(CAST(x AS VARCHAR), '\+00$', '')
    WHEN typeof(x) = 'BLOB' THEN decode(CAST(CAST(x AS VARCHAR) AS BLOB))
    WHEN starts_with(typeof(x), 'DECIMAL') THEN xpsql_decimal_text(CAST(x AS VARCHAR))
    ELSE CAST(x AS VARCHAR) END;
CREATE MACRO xpsql_integral(x) AS
  CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(trunc(TRY_CAST(x AS DOUBLE)) AS HUGEINT)
    WHEN starts_with(typeof(x), 'DECIMAL') THEN CAST(trunc(TRY_CAST(x AS DECIMAL(38, 10))) AS HUGEINT)
    WHEN typeof(x) = 'VARCHAR' THEN CASE WHEN regexp_matches(CAST(x AS VARCHAR), '^\s*[+-]?[0-9]+\s*$') OR x IS NULL
      THEN CAST(trim(CAST(x AS VARCHAR)) AS HUGEINT)
      ELSE error('the text ''' || CAST(x AS VARCHAR) || ''' is no integer; use TRY_CAST to get NULL instead') END
    WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN CAST(floor(epoch(TRY_CAST(x AS TIMESTAMP))) AS HUGEINT)
    ELSE TRY_CAST(x AS HUGEINT) END;
CREATE MACRO xpsql_try_integral(x) AS
  CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN TRY_CAST(trunc(TRY_CAST(x AS DOUBLE)) AS HUGEINT)
    WHEN starts_with(typeof(x), 'DECIMAL') THEN TRY_CAST(trunc(TRY_CAST(x AS DECIMAL(38, 10))) AS HUGEINT)
    WHEN typeof(x) = 'VARCHAR' THEN CASE WHEN regexp_matches(CAST(x AS VARCHAR), '^\s*[+-]?[0-9]+\s*$')
      THEN TRY_CAST(trim(CAST(x AS VARCHAR)) AS HUGEINT) END
    ELSE TRY_CAST(x AS HUGEINT) END;
-- The common texts are DuckDB's to read, others ours: DuckDB takes 1_0 for a number, and 24:00:00 for a time.
CREATE MACRO xpsql_real_of(t) AS CASE
  WHEN regexp_full_match(t, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?') THEN TRY_CAST(t AS DOUBLE)
  WHEN regexp_matches(t, '^[\x00-\x20\x7f]*[+-]?(\.?[0-9]|[iI][nN][fF]|[nN][aA][nN])') THEN xpsql_text_real(t) END;
CREATE MACRO xpsql_decimal_of(t) AS
  CASE WHEN regexp_full_match(t, '[\x00-\x20]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[\x00-\x20]*') THEN t END;
CREATE MACRO xpsql_exact(t) AS CASE WHEN t IS NOT NULL AND xpsql_decimal_of(t) IS NULL
  THEN error('the text ''' || t || ''' is no decimal; use TRY_CAST to get NULL instead') ELSE t END;
CREATE MACRO xpsql_date_of(t) AS CASE WHEN regexp_full_match(t, '[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN TRY_CAST(t AS DATE)
  WHEN regexp_matches(t, '^[\x00-\x20\x7f]*[+-]?[0-9]{4}') THEN DATE '1970-01-01' + CAST(xpsql_text_days(t) AS INTEGER) END;
CREATE MACRO xpsql_timestamp_of(t) AS CASE
  WHEN regexp_full_match(t, '[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])?)?')
    THEN TRY_CAST(t AS TIMESTAMP WITH TIME ZONE)
  WHEN regexp_matches(t, '^[\x00-\x20\x7f]*([+-]?[0-9]{4}|T?[0-9]{1,2}:)') THEN make_timestamptz(xpsql_text_micros(t)) END;
CREATE MACRO xpsql_try_real(x) AS
  CASE WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN epoch(TRY_CAST(x AS TIMESTAMP))
    WHEN typeof(x) = 'VARCHAR' THEN xpsql_real_of(CAST(x AS VARCHAR)) ELSE TRY_CAST(x AS DOUBLE) END;
CREATE MACRO xpsql_real(x) AS
  CASE WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE' THEN epoch(TRY_CAST(x AS TIMESTAMP))
    WHEN typeof(x) = 'VARCHAR' AND x IS NOT NULL AND xpsql_real_of(CAST(x AS VARCHAR)) IS NULL
      THEN error('the text ''' || CAST(x AS VARCHAR) || ''' is no double; use TRY_CAST to get NULL instead')
    WHEN typeof(x) = 'VARCHAR' THEN xpsql_real_of(CAST(x AS VARCHAR)) ELSE CAST(x AS DOUBLE) END;
CREATE MACRO xpsql_try_boolean(x) AS
  CASE WHEN typeof(x) = 'VARCHAR' THEN CASE WHEN lower(trim(CAST(x AS VARCHAR))) IN ('t', 'true', 'y', 'yes', '1') THEN true
      WHEN lower(trim(CAST(x AS VARCHAR))) IN ('f', 'false', 'n', 'no', '0') THEN false END
    ELSE TRY_CAST(x AS BOOLEAN) END;
CREATE MACRO spark_boolean(x) AS
  CASE WHEN x IS NOT NULL AND xpsql_try_boolean(x) IS NULL
    THEN error('the text ''' || CAST(x AS VARCHAR) || ''' is no boolean; use TRY_CAST to get NULL instead')
    ELSE xpsql_try_boolean(x) END;
CREATE MACRO xpsql_try_date(x) AS
  CASE WHEN typeof(x) = 'VARCHAR' THEN xpsql_date_of(CAST(x AS VARCHAR)) ELSE TRY_CAST(x AS DATE) END;
CREATE MACRO spark_to_date(x) AS
  CASE WHEN x IS NOT NULL AND xpsql_try_date(x) IS NULL
    THEN error('the text ''' || CAST(x AS VARCHAR) || ''' is no date; use TRY_CAST to get NULL instead') ELSE xpsql_try_date(x) END;
CREATE MACRO xpsql_try_timestamp(x) AS
  CASE WHEN typeof(x) IN ('INTEGER', 'BIGINT', 'SMALLINT', 'TINYINT', 'DOUBLE', 'FLOAT', 'HUGEINT')
      OR starts_with(typeof(x), 'DECIMAL')
    THEN make_timestamptz(CAST(TRY_CAST(x AS DOUBLE) * 1000000 AS BIGINT))
    WHEN typeof(x) = 'VARCHAR' THEN xpsql_timestamp_of(CAST(x AS VARCHAR))
    ELSE TRY_CAST(x AS TIMESTAMP WITH TIME ZONE) END;
CREATE MACRO spark_to_timestamp(x) AS
  CASE WHEN x IS NOT NULL AND xpsql_try_timestamp(x) IS NULL
    THEN error('the text ''' || CAST(x AS VARCHAR) || ''' is no timestamp; use TRY_CAST to get NULL instead')
    ELSE xpsql_try_timestamp(x) END;
CREATE MACRO xpsql_matching(x, p, found) AS
  CASE WHEN x IS NOT NULL AND found IS NULL
    THEN error('the text ''' || CAST(x AS VARCHAR) || ''' is no time of the pattern ''' || p || '''; use try_to_timestamp to get NULL instead')
    ELSE found END;
CREATE MACRO xpsql_moved(t, a, b) AS
  CASE WHEN t IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL AND xpsql_shifted_micros(t, a, b) IS NULL
    THEN error('there is no zone ''' || CASE WHEN a = 'Z' THEN b ELSE a END || '''; write Europe/Berlin, or an offset: +01:00')
    ELSE xpsql_shifted_micros(t, a, b) END;

-- arithmetic
CREATE MACRO xpsql_divide(a, b) AS
  CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero; use try_divide to get NULL instead') ELSE a / b END;
CREATE MACRO xpsql_divide_whole(a, b) AS
  CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero; use try_divide to get NULL instead') ELSE a // b END;
CREATE MACRO xpsql_unscaled(m) AS CAST(replace(CAST(m AS VARCHAR), '.', '') AS HUGEINT);
CREATE MACRO xpsql_average(s, n, unit) AS (s // n) * unit + ((s % n) * unit) // n;
CREATE MACRO xpsql_remainder(a, b) AS
  CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero in a remainder') ELSE a % b END;
CREATE MACRO xpsql_div(a, b) AS
  CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero in div') ELSE CAST(CAST(a AS HUGEINT) // b AS BIGINT) END;
CREATE MACRO xpsql_try_divide(a, b) AS CASE WHEN b = 0 THEN NULL ELSE a / b END;
CREATE MACRO xpsql_try_divide_whole(a, b) AS CASE WHEN b = 0 THEN NULL ELSE a // b END;
CREATE MACRO xpsql_pmod(a, b) AS
  CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero in pmod') ELSE CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END END;
CREATE MACRO spark_shiftleft(a, n) AS a * (1 << n);
CREATE MACRO spark_shiftright(a, n) AS a >> n;

-- numbers
CREATE MACRO xpsql_whole(x) AS CASE WHEN spark_isnan(x) THEN 0 ELSE CAST(x AS BIGINT) END;
CREATE MACRO spark_sign(x) AS CASE WHEN spark_isnan(x) THEN CAST('NaN' AS DOUBLE) ELSE CAST(sign(x) AS DOUBLE) END;
CREATE MACRO spark_sqrt(x) AS CASE WHEN x < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(x) END;
CREATE MACRO spark_ln(x) AS CASE WHEN x > 0 THEN ln(x) END;
CREATE MACRO spark_log(x) AS CASE WHEN x > 0 THEN ln(x) END,
  (b, x) AS CASE WHEN b > 0 AND x > 0 THEN ln(x) / ln(b) END;
CREATE MACRO spark_log10(x) AS CASE WHEN x > 0 THEN log10(x) END;
CREATE MACRO spark_log2(x) AS CASE WHEN x > 0 THEN log2(x) END;
CREATE MACRO spark_log1p(x) AS CASE WHEN x > -1 THEN CASE WHEN 1 + CAST(x AS DOUBLE) = 1 THEN CAST(x AS DOUBLE)
  ELSE ln(1 + CAST(x AS DOUBLE)) * (CAST(x AS DOUBLE) / ((1 + CAST(x AS DOUBLE)) - 1)) END END;
CREATE MACRO spark_expm1(x) AS 2 * exp(CAST(x AS DOUBLE) / 2) * sinh(CAST(x AS DOUBLE) / 2);
CREATE MACRO spark_e() AS exp(1);
CREATE MACRO spark_hypot(a, b) AS sqrt(CAST(a AS DOUBLE) * a + CAST(b AS DOUBLE) * b);
CREATE MACRO spark_asin(x) AS CASE WHEN abs(x) > 1 THEN CAST('NaN' AS DOUBLE) ELSE asin(x) END;
CREATE MACRO spark_acos(x) AS CASE WHEN abs(x) > 1 THEN CAST('NaN' AS DOUBLE) ELSE acos(x) END;
CREATE MACRO spark_isnan(x) AS coalesce(isnan(CAST(x AS DOUBLE)), false);
CREATE MACRO spark_nanvl(a, b) AS CASE WHEN spark_isnan(a) THEN b ELSE a END;
CREATE MACRO spark_factorial(n) AS CASE WHEN n BETWEEN 0 AND 20 THEN CAST(factorial(CAST(n AS INTEGER)) AS BIGINT) END;
CREATE MACRO spark_negative(x) AS -x;
CREATE MACRO spark_positive(x) AS x;
CREATE MACRO spark_bin(x) AS CASE WHEN x < 0 THEN bin(CAST(x AS BIGINT)) ELSE bin(x) END;
CREATE MACRO spark_hex(x) AS CASE WHEN typeof(x) IN ('VARCHAR', 'BLOB') THEN hex(CAST(x AS VARCHAR))
  ELSE hex(TRY_CAST(x AS BIGINT)) END;
CREATE MACRO xpsql_bucket(x, low, high, n) AS
  CASE WHEN n <= 0 OR low = high OR isnan(x) OR NOT isfinite(low) OR NOT isfinite(high) THEN NULL
    WHEN (low < high AND x < low) OR (low > high AND x > low) THEN 0
    WHEN (low < high AND x >= high) OR (low > high AND x <= high) THEN n + 1
    ELSE CAST(floor(n * (x - low) / (high - low)) AS BIGINT) + 1 END;
CREATE MACRO spark_width_bucket(x, low, high, n) AS
  xpsql_bucket(CAST(x AS DOUBLE), CAST(low AS DOUBLE), CAST(high AS DOUBLE), CAST(n AS BIGINT));
-- A double whose scaled value is next to a half is rounded by its decimal text, as Spark rounds the BigDecimal of that text.
CREATE MACRO xpsql_round_real(x, n) AS
  CASE WHEN abs(x) < 1e15 AND abs(abs(x * power(10, n) - trunc(x * power(10, n))) - 0.5) < 1e-4
    THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 20)), n) AS DOUBLE) ELSE round(x, n) END;
CREATE MACRO xpsql_half_even(x) AS
  CASE WHEN abs(x - trunc(x)) = 0.5 THEN 2 * round(x / 2) ELSE round(x) END;
CREATE MACRO xpsql_half_even_whole(u, unit) AS
  CASE WHEN abs(u % unit) * 2 + abs(u // unit) % 2 > unit THEN u // unit + sign(u) ELSE u // unit END;
CREATE MACRO xpsql_bround_real(x, n) AS xpsql_half_even(x * power(10, n)) / power(10, n);

-- conditions
CREATE MACRO spark_nvl2(a, b, c) AS CASE WHEN a IS NOT NULL THEN b ELSE c END;
CREATE MACRO spark_isnull(x) AS x IS NULL;
CREATE MACRO spark_isnotnull(x) AS x IS NOT NULL;
CREATE MACRO spark_equal_null(a, b) AS a IS NOT DISTINCT FROM b;
CREATE MACRO spark_zeroifnull(x) AS coalesce(x, 0);
CREATE MACRO spark_nullifzero(x) AS CASE WHEN x = 0 THEN NULL ELSE x END;

-- strings
CREATE MACRO spark_octet_length(s) AS CAST(strlen(spark_string(s)) AS INTEGER);
CREATE MACRO spark_bit_length(s) AS CAST(strlen(spark_string(s)) * 8 AS INTEGER);
CREATE MACRO spark_length(s) AS CAST(length(spark_string(s)) AS INTEGER);
-- DuckDB's letters have one letter for each other, so that a final sigma, and letters that become two, are ours.
CREATE MACRO xpsql_upper_of(s) AS CASE WHEN strlen(s) > length(s) AND regexp_matches(s, '[ßŉǰΐΰևẖẗẘẙẚὐὒὔὖᾀ-ᾯᾲ-ᾴᾶᾷᾼῂ-ῄῆῇῌῒΐῖῗῢ-ῤῦῧῲ-ῴῶῷῼﬀ-ﬗ]')
  THEN xpsql_upper(s) ELSE upper(s) END;
CREATE MACRO xpsql_lower_of(s) AS CASE WHEN contains(s, 'Σ') OR contains(s, 'İ') THEN xpsql_lower(s) ELSE lower(s) END;
CREATE MACRO spark_upper(s) AS xpsql_upper_of(spark_string(s));
CREATE MACRO spark_lower(s) AS xpsql_lower_of(spark_string(s));
CREATE MACRO xpsql_reversed(s) AS CASE WHEN strlen(s) > length(s) THEN xpsql_reverse(s) ELSE reverse(s) END;
CREATE MACRO xpsql_elt(n, l) AS CASE WHEN n < 1 OR n > len(l)
  THEN error('elt has ' || CAST(len(l) AS VARCHAR) || ' values, got the place ' || CAST(n AS VARCHAR)) ELSE l[n] END;
CREATE MACRO spark_conv(s, a, b) AS xpsql_conv(spark_string(s), CAST(a AS BIGINT), CAST(b AS BIGINT));
CREATE MACRO spark_initcap(s) AS
  array_to_string(list_transform(string_split(xpsql_lower_of(s), ' '), lambda xpsql_x: upper(left(xpsql_x, 1)) || substr(xpsql_x, 2)), ' ');
CREATE MACRO spark_ltrim(s) AS ltrim(s, ' ');
CREATE MACRO spark_rtrim(s) AS rtrim(s, ' ');
CREATE MACRO spark_trim(s) AS trim(s, ' '), (s, c) AS trim(s, c);
CREATE MACRO spark_substring(s, p) AS
  CASE WHEN p < 0 AND -p > length(s) THEN s ELSE substr(s, CASE WHEN p = 0 THEN 1 ELSE p END) END,
  (s, p, n) AS CASE WHEN s IS NULL OR p IS NULL OR n IS NULL THEN NULL WHEN n <= 0 THEN ''
    WHEN p < 0 AND -p > length(s) THEN substr(s, 1, greatest(CAST(0 AS BIGINT), n + p + length(s)))
    ELSE substr(s, CASE WHEN p = 0 THEN 1 ELSE p END, n) END;
CREATE MACRO spark_substring_index(s, d, n) AS
  CASE WHEN s IS NULL OR d IS NULL OR n IS NULL THEN NULL WHEN n = 0 OR d = '' THEN ''
    WHEN n > 0 THEN array_to_string(string_split(s, d)[1:n], d)
    ELSE array_to_string(string_split(s, d)[greatest(1, len(string_split(s, d)) + n + 1):], d) END;
CREATE MACRO spark_left(s, n) AS CASE WHEN n <= 0 THEN '' ELSE left(s, n) END;
CREATE MACRO spark_right(s, n) AS CASE WHEN n <= 0 THEN '' ELSE right(s, n) END;
CREATE MACRO spark_lpad(s, n) AS lpad(spark_string(s), CAST(n AS INTEGER), ' '),
  (s, n, p) AS CASE WHEN spark_string(p) = '' THEN left(spark_string(s), n) ELSE lpad(spark_string(s), CAST(n AS INTEGER), spark_string(p)) END;
CREATE MACRO spark_rpad(s, n) AS rpad(spark_string(s), CAST(n AS INTEGER), ' '),
  (s, n, p) AS CASE WHEN spark_string(p) = '' THEN left(spark_string(s), n) ELSE rpad(spark_string(s), CAST(n AS INTEGER), spark_string(p)) END;
CREATE MACRO spark_repeat(s, n) AS repeat(s, n);
CREATE MACRO spark_space(n) AS repeat(' ', n);
CREATE MACRO spark_replace(s, a) AS replace(s, a, ''), (s, a, b) AS CASE WHEN a = '' THEN s ELSE replace(s, a, b) END;
CREATE MACRO spark_regexp_replace(s, p, r) AS
  regexp_replace(s, p, regexp_replace(replace(r, '', '\'), '\$([0-9])', '\\\1', 'g'), 'g');
CREATE MACRO spark_regexp_extract(s, p) AS regexp_extract(s, p, 1), (s, p, g) AS regexp_extract(s, p, g);
CREATE MACRO xpsql_all_matches(s, p, g) AS CASE WHEN s IS NULL OR p IS NULL THEN NULL ELSE regexp_extract_all(s, p, g) END;
CREATE MACRO spark_regexp_extract_all(s, p) AS xpsql_all_matches(s, p, 1), (s, p, g) AS xpsql_all_matches(s, p, g);
CREATE MACRO spark_regexp_like(s, p) AS regexp_matches(s, p);
CREATE MACRO spark_regexp_count(s, p) AS CAST(len(xpsql_all_matches(s, p, 0)) AS INTEGER);
CREATE MACRO xpsql_split_all(s, p) AS CASE WHEN s = '' THEN [''] WHEN p = '' THEN list_filter(string_split(s, ''), lambda xpsql_x: xpsql_x <> '')
  WHEN regexp_matches('', p) THEN error('the pattern ''' || p || ''' of split matches nothing at all; write ''[|]'' for the character |')
  ELSE string_split_regex(s, p) END;
CREATE MACRO spark_split(s, p) AS xpsql_split_all(s, p),
  (s, p, n) AS CASE WHEN s IS NULL OR n <= 0 OR len(xpsql_split_all(s, p)) <= n THEN xpsql_split_all(s, p)
    ELSE list_append(xpsql_split_all(s, p)[1:n - 1], regexp_extract(s, '^(?:(?s:.)*?(?:' || p || ')){' || CAST(n - 1 AS VARCHAR) || '}((?s:.*))$', 1)) END;
CREATE MACRO spark_split_part(s, d, n) AS CASE WHEN n = 0 THEN error('split_part counts from 1, got 0') ELSE split_part(s, d, n) END;
CREATE MACRO spark_instr(s, t) AS CAST(instr(s, t) AS INTEGER);
CREATE MACRO spark_locate(t, s) AS CAST(instr(s, t) AS INTEGER),
  (t, s, p) AS CAST(CASE WHEN p IS NULL THEN 0 WHEN s IS NULL OR t IS NULL THEN NULL WHEN p < 1 THEN 0 WHEN t = '' THEN 1
    WHEN instr(substr(s, p), t) = 0 THEN 0 ELSE instr(substr(s, p), t) + p - 1 END AS INTEGER);
CREATE MACRO spark_ascii(s) AS CAST(CASE WHEN s = '' THEN 0 ELSE unicode(s) END AS INTEGER);
CREATE MACRO spark_chr(n) AS CASE WHEN n < 0 THEN '' ELSE chr(CAST(n % 256 AS INTEGER)) END;
CREATE MACRO spark_sha2(s, n) AS CASE WHEN n IN (0, 256) THEN sha256(s) ELSE error('sha2 of ' || CAST(n AS VARCHAR) || ' bits is not available; use 256') END;
CREATE MACRO spark_levenshtein(a, b) AS CAST(levenshtein(a, b) AS INTEGER);
CREATE MACRO spark_find_in_set(x, s) AS CAST(CASE WHEN x IS NULL OR s IS NULL THEN NULL WHEN contains(x, ',') THEN 0 ELSE coalesce(list_position(string_split(s, ','), x), 0) END AS INTEGER);
CREATE MACRO spark_overlay(s, r, p) AS left(s, p - 1) || r || substr(s, p + length(r)),
  (s, r, p, n) AS left(s, p - 1) || r || substr(s, p + CASE WHEN n < 0 THEN length(r) ELSE n END);
CREATE MACRO spark_format_number(x, n) AS format('{:,.' || CAST(n AS VARCHAR) || 'f}', CAST(x AS DOUBLE));
-- Of a path of names and places. Numbers with a fraction are ours to write.
CREATE MACRO xpsql_json_found(j, p, t) AS
  CASE WHEN regexp_matches(t, '^[-0-9\[{].*[.eE]') THEN xpsql_json_part(j, p) ELSE t END;
CREATE MACRO xpsql_json_plain_part(j, p) AS
  CASE WHEN TRY_CAST(j AS JSON) IS NULL OR json_type(TRY_CAST(j AS JSON), p) = 'NULL' THEN NULL
    ELSE xpsql_json_found(j, p, json_extract_string(TRY_CAST(j AS JSON), p)) END;
CREATE MACRO spark_json_array_length(j) AS
  CASE WHEN json_type(TRY_CAST(j AS JSON)) = 'ARRAY' THEN CAST(json_array_length(TRY_CAST(j AS JSON)) AS INTEGER) END;
CREATE MACRO spark_json_object_keys(j) AS
  CASE WHEN json_type(TRY_CAST(j AS JSON)) = 'OBJECT' THEN json_keys(TRY_CAST(j AS JSON)) END;

-- dates and times: x, a and b are dates or instants already
CREATE MACRO spark_year(x) AS CAST(year(x) AS INTEGER);
CREATE MACRO spark_month(x) AS CAST(month(x) AS INTEGER);
CREATE MACRO spark_day(x) AS CAST(day(x) AS INTEGER);
CREATE MACRO spark_dayofweek(x) AS CAST(dayofweek(x) + 1 AS INTEGER);
CREATE MACRO spark_weekday(x) AS CAST(isodow(x) - 1 AS INTEGER);
CREATE MACRO spark_dayofyear(x) AS CAST(dayofyear(x) AS INTEGER);
CREATE MACRO spark_weekofyear(x) AS CAST(weekofyear(x) AS INTEGER);
CREATE MACRO spark_quarter(x) AS CAST(quarter(x) AS INTEGER);
CREATE MACRO spark_hour(x) AS CAST(hour(x) AS INTEGER);
CREATE MACRO spark_minute(x) AS CAST(minute(x) AS INTEGER);
CREATE MACRO spark_second(x) AS CAST(second(x) AS INTEGER);
CREATE MACRO xpsql_exact_second(x) AS
  CAST(CAST(epoch_us(x) - epoch_us(date_trunc('minute', x)) AS DECIMAL(8, 0)) * 0.000001 AS DECIMAL(8, 6));
CREATE MACRO xpsql_isoyear(x) AS CAST(isoyear(x) AS INTEGER);
CREATE MACRO xpsql_isodow(x) AS CAST(isodow(x) AS INTEGER);
CREATE MACRO spark_date_add(x, n) AS x + CAST(n AS INTEGER);
CREATE MACRO spark_date_sub(x, n) AS x - CAST(n AS INTEGER);
CREATE MACRO spark_datediff(a, b) AS CAST(a - b AS INTEGER);
CREATE MACRO spark_add_months(x, n) AS CAST(x + to_months(CAST(n AS INTEGER)) AS DATE);
CREATE MACRO xpsql_seconds_of_day(x) AS (epoch_us(x) - epoch_us(date_trunc('day', x))) // 1000000;
CREATE MACRO xpsql_is_last_day(x) AS CAST(last_day(CAST(x AS DATE)) AS DATE) = CAST(x AS DATE);
CREATE MACRO spark_months_between(a, b) AS
  CASE WHEN day(a) = day(b) OR (xpsql_is_last_day(a) AND xpsql_is_last_day(b))
    THEN CAST((year(a) - year(b)) * 12 + month(a) - month(b) AS DOUBLE)
    ELSE round((year(a) - year(b)) * 12 + month(a) - month(b)
      + ((day(a) - day(b)) * 86400 + xpsql_seconds_of_day(a) - xpsql_seconds_of_day(b))
        / 2678400.0, 8) END;
CREATE MACRO spark_last_day(x) AS CAST(last_day(x) AS DATE);
CREATE MACRO xpsql_day_number(t) AS
  CAST(CASE left(upper(t), 2) WHEN 'MO' THEN 1 WHEN 'TU' THEN 2 WHEN 'WE' THEN 3 WHEN 'TH' THEN 4 WHEN 'FR' THEN 5 WHEN 'SA' THEN 6 WHEN 'SU' THEN 7 END AS INTEGER);
CREATE MACRO spark_next_day(x, t) AS x + CAST((xpsql_day_number(t) - isodow(x) + 6) % 7 + 1 AS INTEGER);
CREATE MACRO spark_unix_timestamp(x) AS epoch_us(x) // 1000000;
CREATE MACRO spark_timestamp_seconds(n) AS make_timestamptz(CAST(CAST(n AS DECIMAL(26, 6)) * 1000000 AS BIGINT));
CREATE MACRO spark_timestamp_millis(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000);
CREATE MACRO spark_timestamp_micros(n) AS make_timestamptz(CAST(n AS BIGINT));
CREATE MACRO spark_unix_seconds(x) AS CAST(floor(epoch_us(x) / 1000000) AS BIGINT);
CREATE MACRO spark_unix_millis(x) AS CAST(floor(epoch_us(x) / 1000) AS BIGINT);
CREATE MACRO spark_unix_micros(x) AS epoch_us(x);
CREATE MACRO spark_unix_date(x) AS CAST(x - DATE '1970-01-01' AS INTEGER);
CREATE MACRO spark_date_from_unix_date(n) AS DATE '1970-01-01' + CAST(n AS INTEGER);
CREATE MACRO spark_make_date(y, m, d) AS make_date(CAST(y AS BIGINT), CAST(m AS BIGINT), CAST(d AS BIGINT));
CREATE MACRO spark_make_timestamp(y, mo, d, h, mi, s) AS CAST(make_timestamp(y, mo, d, h, mi, CAST(s AS DOUBLE)) AS TIMESTAMP WITH TIME ZONE);
CREATE MACRO spark_dayname(x) AS left(dayname(x), 3);
CREATE MACRO spark_monthname(x) AS left(monthname(x), 3);
-- As java.time has it: an end whose time of day does not reach the start's is a day nearer, and months are of 32 days.
CREATE MACRO xpsql_micros_of_day(x) AS epoch_us(x) - epoch_us(date_trunc('day', x));
CREATE MACRO xpsql_nearer(a, b) AS CAST(b AS DATE) + CASE WHEN b > a AND xpsql_micros_of_day(b) < xpsql_micros_of_day(a) THEN -1
  WHEN b < a AND xpsql_micros_of_day(b) > xpsql_micros_of_day(a) THEN 1 ELSE 0 END;
CREATE MACRO xpsql_month_days(x) AS (year(x) * 12 + month(x)) * 32 + day(x);
CREATE MACRO xpsql_months_apart(a, b) AS (xpsql_month_days(xpsql_nearer(a, b)) - xpsql_month_days(a)) // 32;
CREATE MACRO xpsql_micros_apart(a, b) AS epoch_us(b) - epoch_us(a);

-- arrays and maps
CREATE MACRO spark_array_size(l) AS CAST(len(l) AS INTEGER);
CREATE MACRO xpsql_map_size(m) AS CAST(len(map_keys(m)) AS INTEGER);
CREATE MACRO xpsql_index(l, n) AS CASE WHEN n < 0 OR n >= len(l)
  THEN error('the index ' || CAST(n AS VARCHAR) || ' is outside an array of ' || CAST(len(l) AS VARCHAR) || ' elements; use get to get NULL instead')
  ELSE l[n + 1] END;
CREATE MACRO spark_get(l, n) AS CASE WHEN n < 0 THEN NULL ELSE l[n + 1] END;
CREATE MACRO xpsql_array_element(l, n) AS CASE WHEN n = 0 THEN error('element_at counts from 1, got 0')
  WHEN abs(n) > len(l) THEN error('the position ' || CAST(n AS VARCHAR) || ' is outside an array of ' || CAST(len(l) AS VARCHAR) || ' elements; use try_element_at to get NULL instead')
  ELSE l[n] END;
CREATE MACRO xpsql_try_array_element(l, n) AS
  CASE WHEN n = 0 THEN error('try_element_at counts from 1, got 0') ELSE list_extract(l, n) END;
CREATE MACRO xpsql_series(a, b, step) AS CASE WHEN a = b THEN [a]
  WHEN (a < b AND a + step <= a) OR (a > b AND a + step >= a) THEN error('sequence takes a step that leads from its start to its end')
  ELSE generate_series(a, b, step) END;
-- Each moment counts from the first: a month after January 31 is February 29, two are March 31.
CREATE MACRO xpsql_moments(a, b, step) AS list_filter(
  list_transform(range(len(xpsql_series(a, b, step)) + 1), lambda xpsql_k: a + step * CAST(xpsql_k AS INTEGER)),
  lambda xpsql_t: a = b AND xpsql_t = a OR a < b AND xpsql_t <= b OR a > b AND xpsql_t >= b);
CREATE MACRO spark_array_contains(l, x) AS
  CASE WHEN list_contains(l, x) THEN true WHEN list_count(l) < len(l) THEN NULL ELSE list_contains(l, x) END;
CREATE MACRO spark_array_position(l, x) AS CAST(CASE WHEN l IS NULL OR x IS NULL THEN NULL ELSE coalesce(list_position(l, x), 0) END AS BIGINT);
CREATE MACRO spark_array_distinct(l) AS
  CASE WHEN l IS NULL THEN NULL ELSE list_transform(list_filter(list_zip(l, range(1, len(l) + 1)), lambda xpsql_p: list_position(l, xpsql_p[1]) = xpsql_p[2]), lambda xpsql_p: xpsql_p[1]) END;
CREATE MACRO spark_array_remove(l, x) AS CASE WHEN x IS NULL THEN NULL ELSE list_filter(l, lambda xpsql_e: xpsql_e IS NULL OR xpsql_e <> x) END;
CREATE MACRO spark_array_sort(l) AS list_sort(l, 'ASC', 'NULLS LAST');
CREATE MACRO spark_sort_array(l) AS list_sort(l, 'ASC', 'NULLS FIRST'),
  (l, up) AS CASE WHEN up THEN list_sort(l, 'ASC', 'NULLS FIRST') ELSE list_sort(l, 'DESC', 'NULLS LAST') END;
CREATE MACRO spark_array_join(l, d) AS array_to_string(list_transform(list_filter(l, lambda xpsql_e: xpsql_e IS NOT NULL), lambda xpsql_e: spark_string(xpsql_e)), d),
  (l, d, n) AS array_to_string(list_transform(l, lambda xpsql_e: coalesce(spark_string(xpsql_e), n)), d);
CREATE MACRO spark_array_union(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE spark_array_distinct(list_concat(a, b)) END;
CREATE MACRO spark_array_intersect(a, b) AS CASE WHEN b IS NULL THEN NULL ELSE
  spark_array_distinct(list_filter(a, lambda xpsql_e: CASE WHEN xpsql_e IS NULL THEN list_count(b) < len(b) ELSE list_contains(b, xpsql_e) END)) END;
CREATE MACRO spark_array_except(a, b) AS CASE WHEN b IS NULL THEN NULL ELSE
  spark_array_distinct(list_filter(a, lambda xpsql_e: NOT CASE WHEN xpsql_e IS NULL THEN list_count(b) < len(b) ELSE list_contains(b, xpsql_e) END)) END;
CREATE MACRO spark_array_repeat(x, n) AS  -- by way of a list of one, so that x is computed once
  list_transform([x], lambda xpsql_once: list_transform(range(CAST(n AS BIGINT)), lambda xpsql_k: xpsql_once))[1];
CREATE MACRO spark_array_append(l, x) AS CASE WHEN l IS NULL THEN NULL ELSE list_append(l, x) END;
CREATE MACRO spark_array_prepend(l, x) AS CASE WHEN l IS NULL THEN NULL ELSE list_prepend(x, l) END;
CREATE MACRO spark_array_insert(l, p, x) AS CASE WHEN l IS NULL OR p IS NULL THEN NULL
  WHEN p < 1 THEN error('array_insert takes a position from 1 on here, got ' || CAST(p AS VARCHAR))
  ELSE list_concat(list_append(list_resize(l[1:p - 1], p - 1), x), l[p:]) END;
CREATE MACRO spark_array_compact(l) AS list_filter(l, lambda xpsql_e: xpsql_e IS NOT NULL);
CREATE MACRO spark_arrays_overlap(a, b) AS
  CASE WHEN list_has_any(a, b) THEN true
    WHEN len(a) > 0 AND len(b) > 0 AND (list_count(a) < len(a) OR list_count(b) < len(b)) THEN NULL ELSE list_has_any(a, b) END;
CREATE MACRO spark_slice(l, p, n) AS CASE WHEN p = 0 THEN error('slice counts from 1, got 0')
  WHEN n < 0 THEN error('slice takes a length of at least 0, got ' || CAST(n AS VARCHAR))
  WHEN p > 0 THEN l[p:p + n - 1] WHEN -p > len(l) THEN l[1:0] ELSE l[len(l) + p + 1:len(l) + p + n] END;
CREATE MACRO spark_flatten(l) AS CASE WHEN list_count(l) < len(l) THEN NULL ELSE flatten(l) END;
CREATE MACRO spark_map_from_arrays(k, v) AS map(k, v);
CREATE MACRO spark_map_contains_key(m, k) AS list_contains(map_keys(m), k);
CREATE MACRO spark_exists(l) AS CASE WHEN list_contains(l, true) THEN true WHEN list_count(l) < len(l) THEN NULL ELSE list_contains(l, true) END;
CREATE MACRO spark_forall(l) AS CASE WHEN list_contains(l, false) THEN false WHEN list_count(l) < len(l) THEN NULL WHEN l IS NULL THEN NULL ELSE true END;
CREATE MACRO xpsql_str_to_map_by(s, d, k) AS
  map_from_entries(list_transform(string_split(s, d), lambda xpsql_e: {'key': split_part(xpsql_e, k, 1), 'value': CASE WHEN contains(xpsql_e, k) THEN substr(xpsql_e, instr(xpsql_e, k) + length(k)) END}));
CREATE MACRO spark_str_to_map(s) AS xpsql_str_to_map_by(s, ',', ':'), (s, d) AS xpsql_str_to_map_by(s, d, ':'),
  (s, d, k) AS xpsql_str_to_map_by(s, d, k);
