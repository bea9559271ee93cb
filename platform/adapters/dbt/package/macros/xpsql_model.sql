{# A model of xpsql, trained on the rows of the SELECT; in the database it is a view of its versions. #}
{% materialization xpsql_model, adapter="duckdb", supported_languages=["sql"] %}
  {%- set target_relation = this.incorporate(type="view") -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set files = adapter.external_root() ~ "/" ~ this.identifier -%}
  {%- set rows = files ~ "-" ~ invocation_id ~ ".parquet" -%}
  {{ run_hooks(pre_hooks) }}
  {% call statement("rows") %}
    COPY ({{ compiled_code }}) TO '{{ rows }}' (FORMAT parquet)
  {% endcall %}
  {% if existing_relation is not none and existing_relation.type != "view" %}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
  {% do adapter.store_relation(config.get("plugin", "xpsql"), target_relation, [], rows, "refresh" if should_full_refresh() else "parquet", config) %}
  {% call statement("main") %}
    CREATE OR REPLACE VIEW {{ target_relation }} AS SELECT * FROM read_parquet('{{ files }}-versions.parquet')
  {% endcall %}
  {{ run_hooks(post_hooks) }}
  {% do persist_docs(target_relation, model) %}
  {{ adapter.commit() }}
  {{ return({"relations": [target_relation]}) }}
{% endmaterialization %}

{# Whether a model will be continued, not trained: then its SELECT gives new rows alone. #}
{% macro is_continued() %}
  {{ return(execute and load_relation(this) is not none and not should_full_refresh()) }}
{% endmacro %}
