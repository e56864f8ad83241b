package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html/template"

	"orderonce"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/httpapi/internal/reference"
)

// GetLiveness says that the process answers.
func (s *Server) GetLiveness(context.Context, api.GetLivenessRequestObject) (api.GetLivenessResponseObject, error) {
	return api.GetLiveness200JSONResponse{Status: api.Ok}, nil
}

// GetReadiness says whether this process should get traffic: not while it drains, nor while the database is away.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	if s.draining.Load() {
		return nil, &fault.Error{Kind: fault.Unavailable, Detail: "This process is shutting down.", RetryAfter: drained}
	}
	if err := s.modules.Tenants.DB.Ping(ctx); err != nil {
		return nil, err
	}
	return api.GetReadiness200JSONResponse{Status: api.Ok}, nil
}

// documentCache is the Cache-Control of what everyone may read: old for five minutes at most after a deploy.
const documentCache = "public, max-age=300"

// GetSpecification serves the contract itself.
func (s *Server) GetSpecification(context.Context, api.GetSpecificationRequestObject) (api.GetSpecificationResponseObject, error) {
	return api.GetSpecification200ApplicationyamlResponse{
		Headers: api.GetSpecification200ResponseHeaders{CacheControl: documentCache},
		Body:    bytes.NewReader(orderonce.OpenAPI), ContentLength: int64(len(orderonce.OpenAPI)),
	}, nil
}

// pageStyle is the style of the pages for people, byte for byte as it stands in them.
//
//go:embed page.css
var pageStyle string

// GetReference shows the contract to people.
func (s *Server) GetReference(context.Context, api.GetReferenceRequestObject) (api.GetReferenceResponseObject, error) {
	page, err := s.reference()
	if err != nil {
		return nil, err
	}
	return api.GetReference200TexthtmlResponse{
		Headers: api.GetReference200ResponseHeaders{CacheControl: documentCache},
		Body:    bytes.NewReader(page), ContentLength: int64(len(page)),
	}, nil
}

//go:embed problem.html
var problemSource string

var problemPage = template.Must(template.New("problem").Parse(problemSource))

// GetProblemType shows a person what a problem's type means: the words are the contract's own.
func (s *Server) GetProblemType(_ context.Context, request api.GetProblemTypeRequestObject) (api.GetProblemTypeResponseObject, error) {
	for _, kind := range fault.Kinds() {
		if kind.String() != request.Code {
			continue
		}
		t := problemTypes[kind]
		var page bytes.Buffer
		err := problemPage.Execute(&page, map[string]any{
			"Code": kind.String(), "Status": t.status, "Title": t.title, "Retryable": t.retryable,
			"KeyAction": t.keyAction, "Meaning": reference.Prose(s.spec.problemSchema(kind).Description),
			"Style": template.CSS(pageStyle), //nolint:gosec // our own
		})
		if err != nil {
			return nil, fmt.Errorf("render a problem page: %w", err)
		}
		return api.GetProblemType200TexthtmlResponse{
			Headers: api.GetProblemType200ResponseHeaders{CacheControl: documentCache},
			Body:    &page, ContentLength: int64(page.Len()),
		}, nil
	}
	return nil, fault.New(fault.NotFound, "There is no problem of this code.")
}
