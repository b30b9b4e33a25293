//! Counts the requests that a command sends to AWS, and the read units that DynamoDB reports.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use shared::inbox::ledger::Cost;

tokio::task_local! {
    static SPENT: Arc<Mutex<Cost>>;
}

/// Runs a command, and counts the cost of its requests. Two commands that run at the same time have
/// separate counts. The requests of a spawned task are not counted.
pub async fn metered<F: Future>(command: F) -> F::Output {
    SPENT.scope(Arc::default(), command).await
}

/// Returns the cost of the current command until now, or `None` outside of [`metered`].
pub(crate) fn spent() -> Option<Cost> {
    let cost = |cost: &Arc<Mutex<Cost>>| *cost.lock().unwrap_or_else(PoisonError::into_inner);
    SPENT.try_with(cost).ok()
}

fn add(more: Cost) {
    // A request outside of a command has no count.
    let _ = SPENT.try_with(|cost| {
        *cost.lock().unwrap_or_else(PoisonError::into_inner) += more;
    });
}

/// Counts the requests of a client. It asks DynamoDB to report the read units of each read.
#[derive(Debug)]
struct Meter;

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input_mut();
        let wanted = Some(ReturnConsumedCapacity::Total);
        if let Some(query) = input.downcast_mut::<QueryInput>() {
            query.return_consumed_capacity = wanted;
        } else if let Some(get) = input.downcast_mut::<GetItemInput>() {
            get.return_consumed_capacity = wanted;
        } else if let Some(batch) = input.downcast_mut::<BatchGetItemInput>() {
            batch.return_consumed_capacity = wanted;
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        add(Cost {
            calls: 1,
            read_units: 0.0,
        });
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else {
            return Ok(());
        };
        let units = |used: &ConsumedCapacity| used.capacity_units().unwrap_or(0.0);
        let read_units = if let Some(query) = output.downcast_ref::<QueryOutput>() {
            query.consumed_capacity().map(units)
        } else if let Some(get) = output.downcast_ref::<GetItemOutput>() {
            get.consumed_capacity().map(units)
        } else {
            let batch = output.downcast_ref::<BatchGetItemOutput>();
            batch.map(|batch| batch.consumed_capacity().iter().map(units).sum())
        };
        add(Cost {
            calls: 0,
            read_units: read_units.unwrap_or(0.0),
        });
        Ok(())
    }
}

/// Each SDK crate has its own types for a client and its configuration.
macro_rules! metered_client {
    ($name:ident, $sdk:ident) => {
        /// Returns the client with a meter.
        pub(super) fn $name(client: &$sdk::Client) -> $sdk::Client {
            let config = client.config().to_builder().interceptor(Meter);
            $sdk::Client::from_conf(config.build())
        }
    };
}

metered_client!(dynamodb, aws_sdk_dynamodb);
metered_client!(sqs, aws_sdk_sqs);
metered_client!(ssm, aws_sdk_ssm);
metered_client!(s3, aws_sdk_s3);
