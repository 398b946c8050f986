//! What must hold, judged by the bytes that the sovereign signed.

use cutter_core::record::approval::parse_field;
use cutter_pg::login::Login;

use crate::stage::Theatre;

/// How many units are enacted.
pub fn enacted(theatre: &Theatre) -> i64 {
    let sql = "SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'";
    theatre.d.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
}

/// What is wrong with what is enacted, if something is.
pub fn broken(theatre: &Theatre, signed: &[String]) -> Option<String> {
    let mut admin = theatre.d.database.client(Login::Admin);
    let sets = admin
        .query(
            "SELECT c.change_set_id::text, c.run_id, cutter_governance.fn_rows_digest(c.change_set_id),
                    bool_and(u.lifecycle_status = 'enacted')
             FROM cutter_governance.cut_change_set c JOIN iu_core.information_unit u USING (change_set_id)
             GROUP BY c.change_set_id, c.run_id HAVING bool_or(u.lifecycle_status = 'enacted')",
            &[],
        )
        .unwrap();
    for row in sets {
        let (set, run_id, rows): (String, String, Option<String>) = (row.get(0), row.get(1), row.get(2));
        if !row.get::<_, bool>(3) {
            return Some(format!("{set}: some units are enacted, and some are not"));
        }
        for gate in ["SG_cut_authz", "SG_lifecycle_authz"] {
            let says = |document: &str, name: &str, value: &str| parse_field(document, name) == Some(value);
            let is_word = |document: &&String| {
                says(document, "decision", "approve")
                    && says(document, "gate", gate)
                    && says(document, "run_id", &run_id)
                    && rows.as_deref().is_some_and(|rows| says(document, "rows_digest", rows))
            };
            let words: Vec<&String> = signed.iter().filter(is_word).collect();
            if words.is_empty() {
                return Some(format!(
                    "{set} is enacted without a valid word at {gate} for its rows {rows:?}"
                ));
            }
            let refusals = admin
                .query(
                    "SELECT convert_from(b.document, 'UTF8') FROM cutter_governance.approval_answer b
                     JOIN cutter_governance.review_approval a ON a.run_id = b.run_id
                     JOIN cutter_governance.approval_use USING (approval_id)
                     JOIN cutter_governance.approval_ask q ON q.nonce = a.nonce AND q.run_id = b.run_id
                         AND q.gate = b.gate AND q.occurrence = b.occurrence
                     WHERE b.run_id = $1 AND b.gate = $2 AND b.decision <> 'approve' AND NOT b.late",
                    &[&run_id, &gate],
                )
                .unwrap();
            if refusals.iter().any(|row| signed.contains(&row.get(0))) {
                return Some(format!(
                    "{set} is enacted although it was refused at {gate}, and that was stored"
                ));
            }
        }
    }
    None
}
