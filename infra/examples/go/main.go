// Receives the events of the source stripe-main. Mitt signs each request as Standard Webhooks (sign = "standard"), with
// the secret stripe-main.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"
)

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("WEBHOOK_SECRET must be whsec_ and base64")
	}
	// Use the database of your service instead: the keys must be in the database that the work changes.
	file := or(os.Getenv("DATABASE"), "receiver.db")
	db, err := sql.Open("sqlite3", "file:"+file+"?_busy_timeout=2000&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY);
		CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body TEXT NOT NULL);`)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/webhooks", func(w http.ResponseWriter, r *http.Request) { receive(w, r, key, db) })
	log.Fatal(http.ListenAndServe(":"+or(os.Getenv("PORT"), "3000"), nil))
}

func receive(w http.ResponseWriter, r *http.Request, key []byte, db *sql.DB) {
	// The signature covers the exact bytes.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	if err != nil || r.Method != http.MethodPost || !verified(key, r.Header, body, time.Now()) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var event map[string]any
	if json.Unmarshal(body, &event) != nil || event == nil {
		w.WriteHeader(http.StatusUnprocessableEntity) // it will never be a JSON object: this ends the event
		return
	}
	// Webhook-Id is the idempotency key, and the signature covers it.
	err = handle(db, r.Header.Get("Webhook-Id"), string(body))
	var failed sqlite3.Error
	if errors.As(err, &failed) && failed.Code == sqlite3.ErrBusy {
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusTooManyRequests)
	} else if err != nil {
		log.Print(err)
		w.WriteHeader(http.StatusInternalServerError) // Mitt repeats the request
	}
}

// verified checks the signature of Standard Webhooks, and that it is at most five minutes old.
func verified(key []byte, header http.Header, body []byte, now time.Time) bool {
	sent, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	age := now.Unix() - sent
	if err != nil || age > 300 || age < -300 || header.Get("Webhook-Id") == "" {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", header.Get("Webhook-Id"), sent, body)
	for _, signature := range strings.Fields(header.Get("Webhook-Signature")) {
		isV1 := strings.HasPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1,"))
		if isV1 && err == nil && hmac.Equal(given, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// handle stores the key and does the work in one transaction. If the key is stored already, the work is done.
func handle(db *sql.DB, key, body string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	stored, err := tx.Exec("INSERT INTO handled (key) VALUES (?) ON CONFLICT DO NOTHING", key)
	if err != nil {
		return err
	}
	if count, err := stored.RowsAffected(); err != nil || count == 0 {
		return err
	}
	if _, err := tx.Exec("INSERT INTO jobs (body) VALUES (?)", body); err != nil { // your work
		return err
	}
	return tx.Commit()
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
