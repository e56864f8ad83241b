package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
)

// GetOrder reads one order of the caller's tenant.
func (s *Server) GetOrder(ctx context.Context, request api.GetOrderRequestObject) (api.GetOrderResponseObject, error) {
	order, err := s.findOrder(ctx, request.OrderId)
	if err != nil {
		return nil, err
	}
	return api.GetOrder200JSONResponse{
		Body:    orderOf(order),
		Headers: api.GetOrder200ResponseHeaders{ETag: etagOf(order)},
	}, nil
}
