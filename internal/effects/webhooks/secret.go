package webhooks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects/webhooks/internal/webhooksdb"
	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

const (
	// DefaultOverlap is how long the old secrets sign beside the new one where nothing else is said: a day to hand it out.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest.
	MaxOverlap = 30 * 24 * time.Hour

	// maxSecrets bounds how many sign at once: each is a part of every delivery's header.
	maxSecrets = 5

	secretPrefix = "whsec_"
	secretBytes  = 32
)

// RotateSecret gives a subscription a new secret, which is returned and cannot be had a second time, and lets its others
// sign beside it for the overlap and no longer. An unknown subscription is fault.NotFound, a secret too many
// fault.LimitReached.
func RotateSecret(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID, overlap time.Duration) (s Subscription, secret string, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Subscription{}, "", fault.Invalid("/overlap_seconds", fmt.Sprintf("must be between 0 and %.0f", MaxOverlap.Seconds()))
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return Subscription{}, "", err
	}
	row, err := queries.LockSubscription(ctx, db, webhooksdb.LockSubscriptionParams{TenantID: tenant, ID: id})
	if s, err = found(row, err); err != nil {
		return Subscription{}, "", err
	}
	now := time.Now()
	ends := now.Add(overlap)
	if err := queries.EndSecrets(ctx, db, webhooksdb.EndSecretsParams{TenantID: tenant, SubscriptionID: id, EndsAt: &ends}); err != nil {
		return Subscription{}, "", fmt.Errorf("end the other secrets: %w", err)
	}
	if err := queries.DeleteEndedSecrets(ctx, db, webhooksdb.DeleteEndedSecretsParams{TenantID: tenant, SubscriptionID: id, EndedAt: &now}); err != nil {
		return Subscription{}, "", fmt.Errorf("delete the ended secrets: %w", err)
	}
	live, err := queries.CountSecrets(ctx, db, webhooksdb.CountSecretsParams{TenantID: tenant, SubscriptionID: id})
	if err != nil {
		return Subscription{}, "", fmt.Errorf("count the secrets: %w", err)
	}
	if live >= maxSecrets {
		return Subscription{}, "", fault.New(fault.LimitReached, fmt.Sprintf("%d secrets sign already: let them end, by a shorter overlap.", live))
	}
	secret, err = addSecret(ctx, db, tenant, id, now)
	return s, secret, err
}

// addSecret makes a subscription's newest secret and returns its text.
func addSecret(ctx context.Context, db postgres.DBTX, tenant, subscription uuid.UUID, now time.Time) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	err = queries.InsertSecret(ctx, db, webhooksdb.InsertSecretParams{
		TenantID: tenant, ID: id, SubscriptionID: subscription, Secret: secret, CreatedAt: now,
	})
	if err != nil {
		return "", fmt.Errorf("store a secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(secret), nil
}

// sign is the header webhook-signature: one signature for each secret that lives, so that a receiver which knows any of
// them can verify one.
func sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
