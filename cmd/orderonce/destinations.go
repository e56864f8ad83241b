package main

import (
	"fmt"
	"log/slog"
	"time"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/effects/kafka"
	"orderonce/internal/effects/natsjs"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/postgres"
	"orderonce/internal/sandbox"
)

// played are the settings where the services are played at a URL, for those that have none of their own.
func (c effectsConfig) played(url string) effectsConfig {
	for _, service := range []**downstream.Config{&c.Payment, &c.Inventory, &c.Notification} {
		if *service == nil {
			*service = &downstream.Config{
				URL: url, Capability: effects.Idempotent, Retention: time.Duration(sandbox.Default().Retention), Asked: true,
				Timeout: c.Timeout, Concurrency: c.Concurrency,
			}
		}
	}
	return c
}

// guard says where webhooks may lead.
func (c effectsConfig) guard() webhooks.Guard { return webhooks.Guard{AllowPrivate: c.WebhookPrivate} }

// destinations are all that a worker sends to, and what they hold open.
type destinations struct {
	all   []effects.Destination
	close []func()
}

// open makes those that the settings name, and the webhooks, which tenants name. db is of the Worker role.
func (c effectsConfig) open(db *postgres.DB, log *slog.Logger) (d *destinations, err error) {
	d = &destinations{}
	defer func() {
		if err != nil {
			d.end()
		}
	}()
	for _, service := range []struct {
		config *downstream.Config
		open   func(downstream.Config) effects.Destination
	}{{c.Payment, downstream.Payment}, {c.Inventory, downstream.Inventory}, {c.Notification, downstream.Notification}} {
		if service.config == nil {
			continue
		}
		if err := service.config.Check(); err != nil {
			return nil, fmt.Errorf("destination: %w", err)
		}
		d.all = append(d.all, service.open(*service.config))
	}
	hooks := webhooks.New(db, webhooks.Config{
		Guard: c.guard(), Source: c.Source, Timeout: c.Timeout, Concurrency: c.Concurrency,
	}, log)
	d.add(hooks.Destination(), hooks.Close)
	if c.NATS.URL != "" {
		nats, err := natsjs.New(c.NATS, log)
		if err != nil {
			return nil, fmt.Errorf("nats-url: %w", err)
		}
		d.add(nats.Destination(), nats.Close)
	}
	if len(c.Kafka.Brokers) > 0 {
		producer, err := kafka.New(c.Kafka, log)
		if err != nil {
			return nil, fmt.Errorf("kafka-brokers: %w", err)
		}
		d.add(producer.Destination(), producer.Close)
	}
	return d, nil
}

func (d *destinations) add(one effects.Destination, end func()) {
	d.all = append(d.all, one)
	d.close = append(d.close, end)
}

func (d *destinations) end() {
	for _, one := range d.close {
		one()
	}
}
