package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects/webhooks"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// The operations that make a secret replay by reference, as those of API keys do: what is stored of their answer is the
// webhook's id, never the secret.

// CreateWebhook makes a webhook, or finds it.
func (s *Server) CreateWebhook(ctx context.Context, request api.CreateWebhookRequestObject) (api.CreateWebhookResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	draft := webhooks.Draft{Name: request.Body.Name, URL: request.Body.Url}
	if request.Body.EventTypes != nil {
		for _, name := range *request.Body.EventTypes {
			draft.EventTypes = append(draft.EventTypes, string(name))
		}
	}
	answer := func(hook webhooks.Subscription, secret string) reply {
		visit := api.CreateWebhook200JSONResponse{Body: webhookOf(hook, "")}.VisitCreateWebhookResponse
		if secret != "" {
			visit = api.CreateWebhook201JSONResponse{Body: webhookOf(hook, secret)}.VisitCreateWebhookResponse
		}
		return reply{visit: visit, resource: resourceOfWebhook(hook)}
	}
	return s.once(ctx, s.rebuiltWebhook(answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		hook, secret, err := webhooks.Create(ctx, tx, s.config.Webhooks, tenant, draft)
		return answer(hook, secret), err
	})
}

// RotateWebhookSecret gives a webhook a new secret and lets its others end.
func (s *Server) RotateWebhookSecret(ctx context.Context, request api.RotateWebhookSecretRequestObject) (api.RotateWebhookSecretResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	overlap := time.Duration(*request.Body.OverlapSeconds) * time.Second
	answer := func(hook webhooks.Subscription, secret string) reply {
		response := api.RotateWebhookSecret200JSONResponse{Body: webhookOf(hook, secret)}
		return reply{visit: response.VisitRotateWebhookSecretResponse, resource: resourceOfWebhook(hook)}
	}
	return s.once(ctx, s.rebuiltWebhook(answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		hook, secret, err := webhooks.RotateSecret(ctx, tx, tenant, request.WebhookId, overlap)
		return answer(hook, secret), err
	})
}

// DisableWebhook lets a webhook get no event any more.
func (s *Server) DisableWebhook(ctx context.Context, request api.DisableWebhookRequestObject) (api.DisableWebhookResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	answer := func(hook webhooks.Subscription, _ string) reply {
		response := api.DisableWebhook200JSONResponse{Body: webhookOf(hook, "")}
		return reply{visit: response.VisitDisableWebhookResponse, resource: resourceOfWebhook(hook)}
	}
	return s.once(ctx, s.rebuiltWebhook(answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		hook, _, err := webhooks.Disable(ctx, tx, tenant, request.WebhookId, webhooks.Requested)
		return answer(hook, ""), err
	})
}

// EnableWebhook lets a webhook get events again.
func (s *Server) EnableWebhook(ctx context.Context, request api.EnableWebhookRequestObject) (api.EnableWebhookResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	answer := func(hook webhooks.Subscription, _ string) reply {
		response := api.EnableWebhook200JSONResponse{Body: webhookOf(hook, "")}
		return reply{visit: response.VisitEnableWebhookResponse, resource: resourceOfWebhook(hook)}
	}
	return s.once(ctx, s.rebuiltWebhook(answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		hook, _, err := webhooks.Enable(ctx, tx, tenant, request.WebhookId)
		return answer(hook, ""), err
	})
}

// rebuiltWebhook makes a keyed operation's answer of the webhook as it is now, without a secret.
func (s *Server) rebuiltWebhook(answer func(webhooks.Subscription, string) reply) func(context.Context, uuid.UUID) (reply, error) {
	find := func(ctx context.Context, db postgres.DBTX, id uuid.UUID) (webhooks.Subscription, error) {
		return webhooks.Read(ctx, db, callOf(ctx).principal.Tenant, id)
	}
	return rebuilt(s, find, func(hook webhooks.Subscription) reply { return answer(hook, "") })
}

// ListWebhooks reads one page of the tenant's webhooks, newest first.
func (s *Server) ListWebhooks(ctx context.Context, request api.ListWebhooksRequestObject) (api.ListWebhooksResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]webhooks.Subscription, bool, error) {
		return webhooks.List(ctx, db, callOf(ctx).principal.Tenant, before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	hooks, next := pageOf(page, more, func(hook webhooks.Subscription) api.Webhook { return webhookOf(hook, "") },
		func(hook webhooks.Subscription) uuid.UUID { return hook.ID })
	return api.ListWebhooks200JSONResponse{Webhooks: hooks, NextPageToken: next}, nil
}

func webhookOf(hook webhooks.Subscription, secret string) api.Webhook {
	out := api.Webhook{
		Id: hook.ID, Name: hook.Name, Url: hook.URL, EventTypes: make([]api.EventType, len(hook.EventTypes)), Active: hook.Active,
		DisabledReason: (*api.WebhookDisabledReason)(hook.DisabledReason), FailingSince: hook.FailingSince, CreatedAt: hook.CreatedAt,
	}
	for i, name := range hook.EventTypes {
		out.EventTypes[i] = api.EventType(name)
	}
	if secret != "" {
		out.Secret = &secret
	}
	return out
}

func resourceOfWebhook(hook webhooks.Subscription) idempotency.Resource {
	return idempotency.Resource{Type: webhookResource, ID: hook.ID}
}
