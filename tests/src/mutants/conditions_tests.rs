//! The finder finds every condition of a function that has one of each kind.

use super::*;

fn found(text: &str) -> Vec<String> {
    of_body(text).iter().map(|change| format!("{}: {}", change.class.as_str(), change.words(text))).collect()
}

#[test]
fn each_kind_of_condition_is_found_and_nothing_else() {
    let body = "
DECLARE
    v_is boolean := EXISTS (SELECT FROM t WHERE t.a = p_a);
BEGIN
    IF p_a IS NULL OR (p_b > 3 AND NOT p_c IN ('x', 'y')) THEN
        RAISE EXCEPTION 'no % WHERE a = b', p_a;
    ELSIF v_is THEN
        RETURN NULL;
    END IF;
    PERFORM s.fn_check(p_a);
    PERFORM FROM t WHERE t.at BETWEEN 1 AND 2 AND t.run = p_run FOR UPDATE OF t SKIP LOCKED;
    v_to := CASE WHEN p_a = 1 THEN 'a' END;
    v_to := CASE p_a WHEN 1 THEN 'a' END;
    INSERT INTO t (a) SELECT 1 FROM u JOIN w ON w.a = u.a WHERE u.a <> 2 ON CONFLICT (a) DO NOTHING;
    UPDATE t SET a = 1 WHERE t.b IS DISTINCT FROM t.c;
    EXIT WHEN NOT FOUND;
    RETURN a >= b;
EXCEPTION WHEN lock_not_available THEN
    RAISE NOTICE 'x';
END";
    let expected = [
        "condition: EXISTS ( SELECT FROM t WHERE t . a = p_a ) => FALSE",
        "condition: t . a = p_a => TRUE",
        "comparison: t . a = p_a => t . a <> p_a",
        "condition: p_a IS NULL => FALSE",
        "comparison: p_a IS NULL => p_a IS NOT NULL",
        "condition: ( p_b > 3 AND NOT p_c IN ( 'x' , 'y' ) ) => FALSE",
        "condition: p_b > 3 => TRUE",
        "comparison: p_b > 3 => p_b >= 3",
        "condition: NOT p_c IN ( 'x' , 'y' ) => TRUE",
        "comparison: p_c IN ( 'x' , 'y' ) => p_c NOT IN ( 'x' , 'y' )",
        "refusal: RAISE EXCEPTION 'no % WHERE a = b' , p_a => NULL",
        "condition: v_is => FALSE",
        "call: PERFORM s . fn_check ( p_a ) => NULL",
        "condition: t . at BETWEEN 1 AND 2 => TRUE",
        "comparison: t . at BETWEEN 1 AND 2 => t . at NOT BETWEEN 1 AND 2",
        "condition: t . run = p_run => TRUE",
        "comparison: t . run = p_run => t . run <> p_run",
        "lock: FOR UPDATE OF t SKIP LOCKED => ",
        "condition: p_a = 1 => FALSE",
        "comparison: p_a = 1 => p_a <> 1",
        "condition: w . a = u . a => TRUE",
        "comparison: w . a = u . a => w . a <> u . a",
        "condition: u . a <> 2 => TRUE",
        "comparison: u . a <> 2 => u . a = 2",
        "condition: t . b IS DISTINCT FROM t . c => TRUE",
        "comparison: t . b IS DISTINCT FROM t . c => t . b IS NOT DISTINCT FROM t . c",
        "condition: NOT FOUND => FALSE",
        "comparison: a >= b => a > b",
    ];
    assert_eq!(found(body), expected);
}

#[test]
fn a_change_is_made_where_it_stands() {
    let text = "SELECT FROM t WHERE t.a = 1 -- why\n AND t.b = 2";
    let made: Vec<String> = of_body(text).iter().map(|change| change.made_in(text)).collect();
    assert!(made.contains(&"SELECT FROM t WHERE TRUE -- why\n AND t.b = 2".to_owned()), "{made:#?}");
    assert!(made.contains(&"SELECT FROM t WHERE t.a = 1 -- why\n AND t.b <> 2".to_owned()), "{made:#?}");
    assert_eq!(made.len(), 4, "{made:#?}");
}

#[test]
fn an_expression_in_brackets_is_taken_apart() {
    let text = "(((a IS NULL) OR (b = 'x'::text)) AND (length(c) <= 4) AND (d = ANY (e)))";
    let words: Vec<String> = of_expression(text).iter().map(|change| change.words(text)).collect();
    for expected in [
        "a IS NULL => a IS NOT NULL",
        "( a IS NULL ) => FALSE",
        "( length ( c ) <= 4 ) => TRUE",
        "length ( c ) <= 4 => length ( c ) < 4",
        "d = ANY ( e ) => d <> ALL ( e )",
    ] {
        assert!(words.contains(&expected.to_owned()), "{expected}: {words:#?}");
    }
}
