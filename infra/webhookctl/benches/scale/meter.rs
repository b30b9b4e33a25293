//! A proxy in front of DynamoDB that counts requests and their cost.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use testkit::wire::{Message, Socket};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) calls: f64,
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
}

impl Cost {
    pub(crate) fn each(self, runs: u32) -> Self {
        Self {
            calls: self.calls / f64::from(runs),
            read_units: self.read_units / f64::from(runs),
            write_units: self.write_units / f64::from(runs),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Meter {
    pub(crate) url: String,
    cost: Arc<Mutex<Cost>>,
    /// The first description of the table. The embedded database counts all items for each one, and
    /// DynamoDB only every six hours.
    /// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html>
    table: Arc<Mutex<Option<Message>>>,
}

impl Meter {
    pub(crate) async fn stand_before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let meter = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            cost: Arc::default(),
            table: Arc::default(),
        };
        let address = url.trim_start_matches("http://").to_owned();
        let counting = meter.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (meter, address) = (counting.clone(), address.clone());
                tokio::spawn(async move { meter.pass(client, &address).await });
            }
        });
        meter
    }

    pub(crate) fn take(&self) -> Cost {
        std::mem::take(&mut self.cost.lock().unwrap())
    }

    async fn pass(&self, client: TcpStream, address: &str) -> Option<()> {
        let server = TcpStream::connect(address).await.ok()?;
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut client, mut server) = (Socket::new(client), Socket::new(server));
        while let Some(request) = Message::read(&mut client).await {
            let target = request.header("x-amz-target").unwrap_or_default();
            let describes = target.ends_with(".DescribeTable");
            let known = self.table.lock().unwrap().clone();
            let answer = if let Some(known) = known.filter(|_| describes) {
                known
            } else {
                asking(&request).write(&mut server).await.ok()?;
                Message::read(&mut server).await?
            };
            if describes {
                *self.table.lock().unwrap() = Some(answer.clone());
            }
            self.count(&request, &answer);
            answer.write(&mut client).await.ok()?;
        }
        Some(())
    }

    fn count(&self, request: &Message, answer: &Message) {
        let target = request.header("x-amz-target").unwrap_or_default();
        let reads = ["GetItem", "Query", "Scan"];
        let reads = reads.iter().any(|operation| target.ends_with(operation));
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let told = &told["ConsumedCapacity"];
        let of = |told: &Value| told["CapacityUnits"].as_f64().unwrap_or(0.0);
        let units = match told.as_array() {
            Some(tables) => tables.iter().map(of).sum(),
            None => of(told),
        };
        let mut cost = self.cost.lock().unwrap();
        cost.calls += 1.0;
        if reads {
            cost.read_units += units;
        } else {
            cost.write_units += units;
        }
    }
}

/// Returns the request with the parameter that makes DynamoDB report the consumed capacity.
fn asking(request: &Message) -> Message {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(&request.body) else {
        return request.clone();
    };
    body.insert("ReturnConsumedCapacity".to_owned(), "TOTAL".into());
    request.with_body(Value::Object(body).to_string().into())
}
