//! A test's own database.

use postgres::{Client, NoTls};

use super::reach;
use crate::cluster::{PrivateCluster, on_own_thread};
use crate::dsn::Dsn;
use crate::error::PgError;
use crate::login::{Login, random_hex};

/// What a test's database is copied from, and what a copy leaves out: who may connect to a
/// database is not stored in it.
#[derive(Debug, Clone)]
pub(super) struct Template {
    name: String,
    /// Statements with `{database}` for the name.
    grants: Vec<String>,
}

impl Template {
    pub(super) fn empty() -> Self {
        Self { name: "template0".to_owned(), grants: Vec::new() }
    }

    /// Reads the template's own access list and settings.
    pub(super) fn of(client: &mut Client, name: &str) -> Result<Self, PgError> {
        let mut grants = Vec::new();
        let owner: String = client
            .query_one(
                "SELECT pg_catalog.pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = $1",
                &[&name],
            )?
            .try_get(0)?;
        grants.push(format!("ALTER DATABASE {{database}} OWNER TO {owner}"));
        let acl = client.query(
            "SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END,
                    a.privilege_type
             FROM pg_catalog.pg_database d, pg_catalog.aclexplode(d.datacl) a
             WHERE d.datname = $1 AND d.datacl IS NOT NULL",
            &[&name],
        )?;
        if !acl.is_empty() {
            grants.push("REVOKE ALL ON DATABASE {database} FROM PUBLIC".to_owned());
        }
        for row in acl {
            let (grantee, privilege): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            grants.push(format!("GRANT {privilege} ON DATABASE {{database}} TO {grantee}"));
        }
        let settings = client.query(
            "SELECT pg_catalog.split_part(s, '=', 1),
                    pg_catalog.quote_literal(pg_catalog.substr(s, pg_catalog.strpos(s, '=') + 1))
             FROM pg_catalog.pg_db_role_setting r JOIN pg_catalog.pg_database d ON d.oid = r.setdatabase,
                  pg_catalog.unnest(r.setconfig) s
             WHERE d.datname = $1 AND r.setrole = 0",
            &[&name],
        )?;
        for row in settings {
            let (setting, value): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            // A list setting is stored as its text and must not become one quoted item.
            let value = if setting == "search_path" { value.trim_matches('\'').to_owned() } else { value };
            grants.push(format!("ALTER DATABASE {{database}} SET {setting} = {value}"));
        }
        Ok(Self { name: name.to_owned(), grants })
    }

    /// Makes a database of this name as a copy.
    pub(super) fn copy_to(&self, client: &mut Client, database: &str) -> Result<(), PgError> {
        let create = format!("CREATE DATABASE {database} TEMPLATE {}", self.name);
        // The other strategy goes through the log and is slower; before 15 there is one.
        let is_new = client
            .query_one("SELECT pg_catalog.current_setting('server_version_num')::int >= 150000", &[])?
            .try_get(0)?;
        client.batch_execute(&if is_new { format!("{create} STRATEGY file_copy") } else { create })?;
        for grant in &self.grants {
            client.batch_execute(&grant.replace("{database}", database))?;
        }
        Ok(())
    }
}

/// A database of one test, dropped with it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    admin: Dsn,
    cluster: PrivateCluster,
}

impl TestDatabase {
    pub(super) fn copy_of(template: &Template, admin: Dsn, cluster: PrivateCluster) -> Self {
        let name = format!("test_{}_{}", std::process::id(), random_hex::<6>().unwrap());
        let (template, server, database) = (template.clone(), admin.with_database("postgres"), name.clone());
        on_own_thread(move || {
            let mut client = server.config()?.connect(NoTls)?;
            template.copy_to(&mut client, &database)?;
            if let Some(counting) = reach::counting(&database) {
                client.batch_execute(&counting)?;
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("a database for the test: {error}"));
        Self { name, admin, cluster }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection string of one login.
    #[must_use]
    pub fn dsn(&self, login: Login) -> Dsn {
        self.cluster.dsn(login).unwrap().with_database(&self.name)
    }

    /// The administrator's connection string.
    #[must_use]
    pub fn admin_dsn(&self) -> Dsn {
        self.dsn(Login::Admin)
    }

    /// The connection string of one login as text, secret and all, for a program's
    /// configuration.
    #[must_use]
    pub fn connection_string(&self, login: Login) -> String {
        connection_string(&self.dsn(login))
    }

    /// A blocking client. Not on a thread of an async runtime.
    #[must_use]
    pub fn client(&self, login: Login) -> Client {
        self.dsn(login).config().unwrap().connect(NoTls).unwrap_or_else(|error| panic!("{login}: {error:?}"))
    }
}

/// A connection string as text.
pub(super) fn connection_string(dsn: &Dsn) -> String {
    let config = dsn.config().unwrap();
    let Some(postgres::config::Host::Unix(folder)) = config.get_hosts().first() else {
        panic!("the test server is on a unix socket")
    };
    format!(
        "host={} port={} user={} password={} dbname={}",
        folder.display(),
        config.get_ports().first().copied().unwrap_or(5432),
        config.get_user().unwrap_or_default(),
        std::str::from_utf8(config.get_password().unwrap_or_default()).unwrap(),
        config.get_dbname().unwrap_or_default(),
    )
}

/// A database as it stood once, to be put back as often as needed.
#[derive(Debug)]
pub struct Kept {
    copy: TestDatabase,
    template: Template,
    /// Of the database itself: what is put back is the same one to whoever pinned it.
    oid: u32,
}

impl TestDatabase {
    /// Keeps the database as it stands. Nobody may be connected to it.
    ///
    /// # Panics
    /// If somebody is.
    #[must_use]
    pub fn keep(&self) -> Kept {
        let (server, name) = (self.admin.with_database("postgres"), self.name.clone());
        let (mut template, oid) = on_own_thread(move || {
            let mut client = server.config()?.connect(NoTls)?;
            let oid =
                client.query_one("SELECT oid FROM pg_database WHERE datname = $1", &[&name])?.try_get(0)?;
            Ok((Template::of(&mut client, &name)?, oid))
        })
        .unwrap_or_else(|error| panic!("a database to keep: {error}"));
        let copy = Self::copy_of(&template, self.admin.clone(), self.cluster.clone());
        template.name.clone_from(&copy.name);
        Kept { copy, template, oid }
    }

    /// Puts back what was kept, under this name and with this identity (from PostgreSQL 15 on; before, a
    /// database's identity can't be chosen).
    ///
    /// # Panics
    /// If the server refuses.
    pub fn put_back(&self, kept: &Kept) {
        let (server, name) = (self.admin.with_database("postgres"), self.name.clone());
        let (from, oid, grants) = (kept.copy.name.clone(), kept.oid, kept.template.grants.clone());
        on_own_thread(move || {
            let mut client = server.config()?.connect(NoTls)?;
            client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
            client.batch_execute(&format!(
                "CREATE DATABASE {name} TEMPLATE {from} STRATEGY file_copy OID {oid}"
            ))?;
            for grant in &grants {
                client.batch_execute(&grant.replace("{database}", &name))?;
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("a database to put back: {error}"));
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.admin.with_database("postgres"), self.name.clone());
        let database = self.admin.with_database(&self.name);
        // Best effort: the server goes away after the tests, and may be stopped by this one.
        let _ = on_own_thread(move || {
            reach::note(&database)?;
            let mut client = server.config()?.connect(NoTls)?;
            client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::TestServer;
    use super::*;

    /// The access list and the settings of a database, as text.
    fn facts(client: &mut Client, name: &str) -> (Vec<String>, Vec<String>) {
        let acl = client
            .query_one(
                "SELECT array_agg(pg_get_userbyid(a.grantee) || ' ' || a.privilege_type ORDER BY 1)
                 FROM pg_database d, aclexplode(d.datacl) a WHERE d.datname = $1",
                &[&name],
            )
            .unwrap();
        let settings = client
            .query_one(
                "SELECT array_agg(s ORDER BY s) FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase,
                 unnest(r.setconfig) s WHERE d.datname = $1",
                &[&name],
            )
            .unwrap();
        (acl.get(0), settings.get(0))
    }

    #[test]
    fn a_copy_has_the_templates_access_list_and_settings() {
        let server = TestServer::own();
        let template = server.empty_database();
        let admin = || server.dsn(Login::Admin, "postgres");
        let mut client = admin().config().unwrap().connect(NoTls).unwrap();
        client
            .batch_execute(&format!(
                "REVOKE ALL ON DATABASE {0} FROM PUBLIC;
                 GRANT CONNECT ON DATABASE {0} TO cutter_ro, cutter_exec;
                 ALTER DATABASE {0} SET search_path = pg_catalog, pg_temp;
                 ALTER DATABASE {0} SET lock_timeout = '7s';
                 ALTER DATABASE {0} OWNER TO cutter_owner;",
                template.name()
            ))
            .unwrap();
        let of = Template::of(&mut client, template.name()).unwrap();
        let copy = TestDatabase::copy_of(&of, admin(), server.cluster().clone());
        assert_eq!(facts(&mut client, copy.name()), facts(&mut client, template.name()));
        assert_eq!(Template::of(&mut client, copy.name()).unwrap().grants, of.grants);
        drop(copy.client(Login::Ro));
        assert!(copy.dsn(Login::Review).config().unwrap().connect(NoTls).is_err());
    }

    #[test]
    fn many_tests_at_once_get_databases_of_their_own() {
        let names: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
            let tests: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let database = TestServer::shared().fresh_database();
                        database
                            .client(Login::Admin)
                            .batch_execute("CREATE TABLE public.only_mine (a int)")
                            .unwrap();
                        database.name().to_owned()
                    })
                })
                .collect();
            tests.into_iter().map(|test| test.join().unwrap()).collect()
        });
        assert_eq!(names.len(), 8);
    }
}
