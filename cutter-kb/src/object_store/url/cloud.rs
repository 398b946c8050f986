//! The clouds' clients: which variables they read, and how they behave.
//!
//! Each request is tried once: who tries again, and how often, is the driver's policy. Nor is a
//! body that broke off gone on with: the object may be another one by then. How long a request
//! may take is the place's to say; a limit for whole requests here would cut large bodies. A
//! connection that was idle for long is not used again, because a write into one that the
//! server is closing has no known outcome.

use std::sync::Arc;

use ::object_store::ObjectStore;

use super::{KbUrl, KbUrlError};

type Opened = Result<Arc<dyn ObjectStore>, KbUrlError>;
type Variables = Vec<(String, String)>;

#[cfg(feature = "cloud")]
mod client {
    use std::time::Duration;

    use ::object_store::{ClientOptions, RetryConfig};

    const CONNECT: Duration = Duration::from_secs(5);
    const IDLE: Duration = Duration::from_secs(15);

    pub(super) fn options() -> ClientOptions {
        // an error means that the program has installed one already: that will do
        let _ = rustls::crypto::ring::default_provider().install_default();
        ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT)
            .with_pool_idle_timeout(IDLE)
    }

    pub(super) fn once() -> RetryConfig {
        RetryConfig { max_retries: 0, ..RetryConfig::default() }
    }

    /// Values of the variables that begin with `prefix`, by key in lower case. Empty ones are
    /// not set.
    pub(super) fn own<K: std::str::FromStr>(
        variables: super::Variables,
        prefixes: &[&str],
    ) -> Vec<(K, String)> {
        let own = variables.into_iter().filter(|(name, value)| {
            !value.is_empty() && prefixes.iter().any(|prefix| name.starts_with(prefix))
        });
        own.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value))).collect()
    }
}

#[cfg(feature = "s3")]
pub(super) fn s3(url: &KbUrl, bucket: &str, variables: Variables) -> Opened {
    use ::object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
    let mut builder = AmazonS3Builder::new().with_client_options(client::options());
    let allows_http = variables.iter().any(|(k, v)| k == "AWS_ALLOW_HTTP" && v.eq_ignore_ascii_case("true"));
    let endpoint = |wanted: &str| variables.iter().find(|(k, v)| k == wanted && !v.is_empty());
    // the more special one wins, as with Amazon's own tools
    let endpoint = endpoint("AWS_ENDPOINT_URL_S3").or_else(|| endpoint("AWS_ENDPOINT_URL"));
    if let Some((_, endpoint)) = endpoint.cloned() {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        if let Some(host) = endpoint.strip_prefix("http://") {
            if !allows_http && !is_loopback(host) {
                return Err(url.failed(
                    "its endpoint is http://, so documents would travel in clear: use https://, or set \
                     AWS_ALLOW_HTTP=true on a network that is yours",
                ));
            }
            builder = builder.with_allow_http(true);
        }
    }
    let settings = client::own::<AmazonS3ConfigKey>(variables, &["AWS_"]);
    for (key, value) in settings {
        let is_ours = matches!(
            key,
            AmazonS3ConfigKey::Endpoint
                | AmazonS3ConfigKey::Bucket
                | AmazonS3ConfigKey::ConditionalPut
                | AmazonS3ConfigKey::CopyIfNotExists
        );
        // of the client's options only the proxy and certificates, not the time limits
        if !is_ours && !is_time_limit(key.as_ref()) {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(client::once())
        .build();
    Ok(Arc::new(store.map_err(|e| url.failed(super::super::error::text(&e)))?))
}

#[cfg(not(feature = "s3"))]
pub(super) fn s3(url: &KbUrl, _bucket: &str, _variables: Variables) -> Opened {
    Err(url.not_built("s3"))
}

#[cfg(feature = "gcs")]
pub(super) fn gcs(url: &KbUrl, bucket: &str, variables: Variables) -> Opened {
    use ::object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let mut builder = GoogleCloudStorageBuilder::new().with_client_options(client::options());
    for (key, value) in client::own::<GoogleConfigKey>(variables, &["GOOGLE_"]) {
        if !matches!(key, GoogleConfigKey::Bucket) && !is_time_limit(key.as_ref()) {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).with_retry(client::once()).build();
    Ok(Arc::new(store.map_err(|e| url.failed(super::super::error::text(&e)))?))
}

#[cfg(not(feature = "gcs"))]
pub(super) fn gcs(url: &KbUrl, _bucket: &str, _variables: Variables) -> Opened {
    Err(url.not_built("gcs"))
}

#[cfg(feature = "azure")]
pub(super) fn azure(url: &KbUrl, container: &str, account: Option<&str>, variables: Variables) -> Opened {
    use ::object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::new().with_client_options(client::options());
    for (key, value) in client::own::<AzureConfigKey>(variables, &["AZURE_"]) {
        if !matches!(key, AzureConfigKey::ContainerName) && !is_time_limit(key.as_ref()) {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(account) = account {
        builder = builder.with_account(account);
    }
    let store = builder.with_container_name(container).with_retry(client::once()).build();
    Ok(Arc::new(store.map_err(|e| url.failed(super::super::error::text(&e)))?))
}

#[cfg(not(feature = "azure"))]
pub(super) fn azure(url: &KbUrl, _container: &str, _account: Option<&str>, _variables: Variables) -> Opened {
    Err(url.not_built("azure"))
}

#[cfg(feature = "cloud")]
fn is_time_limit(key: &str) -> bool {
    key.ends_with("timeout")
}

#[cfg(feature = "s3")]
fn is_loopback(host: &str) -> bool {
    let host = host.split('/').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
