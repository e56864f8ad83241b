package httpapi

import (
	"context"
	"encoding/base64"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// readPage is read for one page of a list.
func readPage[Item any](
	ctx context.Context, s *Server, token *string,
	list func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]Item, bool, error),
) (page []Item, more bool, err error) {
	before, err := parsePageToken(token)
	if err != nil {
		return nil, false, err
	}
	err = s.read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		page, more, err = list(ctx, db, before)
		return err
	})
	return page, more, err
}

// pageOf is a page of a list as the contract has it, and the token of the next one.
func pageOf[Item, Out any](page []Item, more bool, out func(Item) Out, id func(Item) uuid.UUID) (items []Out, next *string) {
	items = make([]Out, len(page))
	for i, item := range page {
		items[i] = out(item)
	}
	if more {
		token := pageToken(id(page[len(page)-1]))
		next = &token
	}
	return items, next
}

// A page token is the id of the last item before the page, so that a page stays what it was while items are added.
func pageToken(last uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(last[:]) }

func parsePageToken(token *string) (uuid.UUID, error) {
	if token == nil {
		return uuid.Max, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*token)
	if err != nil || len(b) != len(uuid.UUID{}) {
		return uuid.UUID{}, errForeignToken()
	}
	return uuid.UUID(b), nil
}

func errForeignToken() error {
	return &fault.Error{Kind: fault.InvalidRequest, Fields: []fault.Field{{
		Pointer: "?page_token", Reason: "is no token of this list",
	}}}
}
