//! Clauses and points of the French, Finnish, Dutch, Uruguayan, Peruvian, Estonian and Norwegian
//! conventions, and the shapes of lists that they need.

use super::lists::{cut, cuts_to};

#[test]
fn french_paragraphs_numbers_and_letters() {
    let text = "##### Article L100-4\n\nI.-Pour répondre :\n\n1° De réduire ;\n\na) Ici ;\n\nb) Là ;\n\n2° De porter ;\n\n\
                2° bis D'encourager ;\n\n2° ter A un producteur ;\n\n3° (Abrogé) ;\n\nI bis. - Le Gouvernement.\n\n\
                \u{20}II. ― L'atteinte.\n\nUn alinéa.\n\n##### Article L2\n\nLa loi fixe :\n\na) Un ;\n\nb) Deux :\n\n\
                1° Sous a ;\n\n2° Sous b.\n";
    cuts_to(
        "fr",
        "subpt",
        text,
        "art-l100-4 art-l100-4/cl-1 art-l100-4/cl-1/pt-1 art-l100-4/cl-1/pt-1/subpt-a \
         art-l100-4/cl-1/pt-1/subpt-b art-l100-4/cl-1/pt-2 art-l100-4/cl-1/pt-2-bis art-l100-4/cl-1/pt-2-ter \
         art-l100-4/cl-1/pt-3 art-l100-4/cl-1-bis art-l100-4/cl-2 art-l2 art-l2/pt-a art-l2/pt-b \
         art-l2/pt-b/subpt-1 art-l2/pt-b/subpt-2",
    );
    cuts_to("fr", "clause", text, "art-l100-4 art-l100-4/cl-1 art-l100-4/cl-1-bis art-l100-4/cl-2 art-l2");
    cuts_to("fr", "article", text, "art-l100-4 art-l2");
}

/// A clause of clauses: `--depth clause` cuts both, and the smaller lie in the larger.
#[test]
fn french_clauses_lie_in_each_other() {
    let text = "Article 37\n\n1. Tout conducteur.\n\n2. a) Ces derniers ;\n\nb) Autres.\n\nArticle 38\n\nI. - Chaque année.\n\n\
                A. - Un fichier.\n\nB. - Une liste.\n\nII.-1. Le montant :\n\na) Un ;\n\n2. Le reste.\n\nIII.-1° L'un.\n\n2° L'autre.\n";
    cuts_to(
        "fr",
        "pt",
        text,
        "art-37 art-37/cl-1 art-37/cl-2 art-37/cl-2/pt-a art-37/cl-2/pt-b art-38 art-38/cl-1 art-38/cl-1/cl-a \
         art-38/cl-1/cl-b art-38/cl-2 art-38/cl-2/cl-1 art-38/cl-2/cl-1/pt-a art-38/cl-2/cl-2 art-38/cl-3 \
         art-38/cl-3/pt-1 art-38/cl-3/pt-2",
    );
    cuts_to(
        "fr",
        "cl",
        text,
        "art-37 art-37/cl-1 art-37/cl-2 art-38 art-38/cl-1 art-38/cl-1/cl-a art-38/cl-1/cl-b art-38/cl-2 \
         art-38/cl-2/cl-1 art-38/cl-2/cl-2 art-38/cl-3",
    );
}

#[test]
fn french_references_titles_and_lost_numbers_are_text() {
    let text = "Article 1\n\nL. 142-4 et L. 142-5.\n\nC. - Un titre.\n\n1° A un producteur ;\n\n3° Trois ;\n\n1° Encore ;\n\n\
                1,5 million.\n\n2° Deux.\n\n- un tiret ;\n\nM. X.\n";
    cuts_to("fr", "subpt", text, "art-1 art-1/pt-1 art-1/pt-2");
}

#[test]
fn finnish_points_and_their_letters() {
    let text = "##### 2 § Määritelmät\n\nTarkoitetaan:\n\n1) *luokalla*\n\u{20}               2) riviä;\n\n2) lajikkeella:\n\n\
                a) avo;\n\nb) sisä;\n\n3) muuta.\n\nMomentti.\n\n##### 15 § Muu\n\nSertifioitava:\n\na) yksi\n\nb) kaksi.\n\n\
                ### Liite 1\n\n1) ei momentti\n";
    let cut_to_subpt = "art-2 art-2/pt-1 art-2/pt-2 art-2/pt-2/subpt-a art-2/pt-2/subpt-b art-2/pt-3 art-15 art-15/pt-a \
                        art-15/pt-b annex-1";
    cuts_to("fi", "alakohta", text, cut_to_subpt);
    cuts_to(
        "fi",
        "kohta",
        text,
        "art-2 art-2/pt-1 art-2/pt-2 art-2/pt-3 art-15 art-15/pt-a art-15/pt-b annex-1",
    );
}

#[test]
fn dutch_leden_and_onderdelen() {
    let text = "### Artikel  37  \n\n1.  Het gezag:  \n\na. zolang;   \n\nb. indien:  \n\n1°. een;\n\n2°. twee;\n\nc.overig.\n\
                2.   De regent ter zake.\n3.   In de gevallen.\n\n### Artikel  1  \n\n####Definities\n\nVerstaan wordt onder:\n\n\
                a.  *fonds:* een;  \n\ni. onderzoek;\n\nii. studie;\n\nb.  *bestuur:* twee.\n\n1. geen lid\n\nA. Handtekening\n\nI. Ander\n";
    cuts_to(
        "nl",
        "subonderdeel",
        text,
        "art-37 art-37/cl-1 art-37/cl-1/pt-a art-37/cl-1/pt-b art-37/cl-1/pt-b/subpt-1 art-37/cl-1/pt-b/subpt-2 \
         art-37/cl-1/pt-c art-37/cl-2 art-37/cl-3 art-1 art-1/pt-a art-1/pt-a/subpt-1 art-1/pt-a/subpt-2 art-1/pt-b",
    );
    cuts_to("nl", "lid", text, "art-37 art-37/cl-1 art-37/cl-2 art-37/cl-3 art-1");
}

#[test]
fn uruguayan_numerals_and_literals_either_way_round() {
    let text = "##### Artículo 77\n\nSobre las bases:\n\n1°) Inscripción;\n 2°) Voto:\n a) uno;\n b) dos, según el numeral\n\
                \u{20}5) citado.\n 3º) Representación;\n4) Fin.\n\n##### Artículo 59\n\nSe aplicará:\n\nA) Del Poder:\n\n1) uno;\n\n\
                2) dos.\n\nB) Del Judicial.\n\n##### Artículo 200\n\nComo sigue:\n\nI) Nombre.\nII) Unidad.\n\n\
                ##### Artículo 201\n\n1) Asígnase:\n\na) uno.\n\n2) Derógase.\n";
    cuts_to(
        "uy",
        "subpt",
        text,
        "art-77 art-77/pt-1 art-77/pt-2 art-77/pt-2/subpt-a art-77/pt-2/subpt-b art-77/pt-3 art-77/pt-4 art-59 \
         art-59/pt-a art-59/pt-a/subpt-1 art-59/pt-a/subpt-2 art-59/pt-b art-200 art-200/pt-1 art-200/pt-2 art-201 \
         art-201/cl-1 art-201/cl-1/pt-a art-201/cl-2",
    );
    cuts_to("uy", "clause", text, "art-77 art-59 art-200 art-201 art-201/cl-1 art-201/cl-2");
}

#[test]
fn peruvian_numbers_in_bold_and_under_the_articles() {
    let text = "#### **Artículo 2. La demanda**\nDeberá contener:\n**1)** La designación;\n**2)** el nombre.\n**3) **El domicilio.\n\
                **4****)** Fin.\n#### **Artículo 3. Ámbito**\n3.1 La presente.\n3.2. El resto:\na) uno;\nb) dos.\n3.2 millones.\n\
                **3.3** Fin.\n#### **Artículo 66. Reglas**\n**1)** Cuando:\n**1.1)** Primero;\n**1.2)** segundo.\n\
                **2)** Otro:\n**2.1)** Tercero.\n3.1 millones.\n";
    cuts_to(
        "pe",
        "subpt",
        text,
        "art-2 art-2/pt-1 art-2/pt-2 art-2/pt-3 art-2/pt-4 art-3 art-3/cl-3.1 art-3/cl-3.2 art-3/cl-3.2/pt-a \
         art-3/cl-3.2/pt-b art-3/cl-3.3 art-66 art-66/cl-1 art-66/cl-1/pt-1.1 art-66/cl-1/pt-1.2 art-66/cl-2 \
         art-66/cl-2/pt-2.1",
    );
    cuts_to(
        "pe",
        "numeral",
        text,
        "art-2 art-3 art-3/cl-3.1 art-3/cl-3.2 art-3/cl-3.3 art-66 art-66/cl-1 art-66/cl-2",
    );
}

#[test]
fn estonian_loiked_and_punktid() {
    let text = "##### § 14<sup>1</sup>. Uus\n\n(1) Määrusega kehtestatakse:\n\n1) nõuded;\n\n2) muud;\n\n2<sup>1</sup>) vahel;\n\n\
                (2) Lõige 1 jääb.\n\n(4) Vahele jäetud.\n\n##### § 15. Teine\n\n1) kohe punkt;\n\n2) teine.\n";
    cuts_to(
        "ee",
        "punkt",
        text,
        "art-14+1 art-14+1/cl-1 art-14+1/cl-1/pt-1 art-14+1/cl-1/pt-2 art-14+1/cl-2 art-15 art-15/pt-1 art-15/pt-2",
    );
    cuts_to("ee", "lõige", text, "art-14+1 art-14+1/cl-1 art-14+1/cl-2 art-15");
}

#[test]
fn norwegian_ledd_and_bokstaver() {
    let text = "##### § 3. Krav\n\n(1) Enhver skal\n\na) betale\n\nb) melde etter bokstav\nc) ovenfor\n\nc) vente.\n\n(2) Ingen.\n\n\
                ##### § 4. Uten ledd\n\na. først\n\nb. så\n\nFritt ledd.\n";
    cuts_to(
        "no",
        "bokstav",
        text,
        "art-3 art-3/cl-1 art-3/cl-1/pt-a art-3/cl-1/pt-b art-3/cl-1/pt-c art-3/cl-2 art-4 art-4/pt-a art-4/pt-b",
    );
    cuts_to("no", "ledd", text, "art-3 art-3/cl-1 art-3/cl-2 art-4");
}

/// Two lists of one shape are open and both are due: the one that printed this mark goes on,
/// and where both did, the inner.
#[test]
fn of_two_lists_that_go_on_the_mark_decides_and_then_the_inner_one() {
    let text = "#### **Artículo 1. Uno**\n1. Primero:\na) uno:\n1) x\n2) y\n2. Segundo.\n";
    let inside = "art-1 art-1/cl-1 art-1/cl-1/pt-a art-1/cl-1/pt-a/subpt-1 art-1/cl-1/pt-a/subpt-2";
    cuts_to("pe", "subpt", text, &std::format!("{inside} art-1/cl-2"));
    let alike = "#### **Artículo 1. Uno**\n1) Primero:\na) uno:\n1) x\n2) y\n2) Segundo.\n";
    cuts_to("pe", "subpt", alike, &std::format!("{inside} art-1/cl-2"));
}

/// The same numbers over again are no list inside the last item of the first.
#[test]
fn a_list_that_begins_anew_is_text() {
    for (profile, article) in
        [("fr", "Article 1\n\n"), ("uy", "##### Artículo 1\n\n"), ("fi", "##### 1 § Yksi\n\n")]
    {
        let mark = if profile == "fr" { "°" } else { ")" };
        let list = std::format!("Se:\n\n1{mark} yksi;\n\n2{mark} kaksi;\n\n");
        let text = std::format!("{article}{list}{list}{list}");
        assert_eq!(cut(profile, "subpt", &text).join(" "), "art-1 art-1/pt-1 art-1/pt-2", "{profile}");
    }
}

#[test]
fn the_largest_number_is_not_gone_on_from() {
    let text = std::format!("Article 1\n\n1° Un ;\n\n{}° Trop ;\n\n2° Deux.\n", u32::MAX);
    assert_eq!(cut("fr", "pt", &text).join(" "), "art-1 art-1/pt-1 art-1/pt-2");
}
