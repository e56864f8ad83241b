package contract

import "fmt"

// Rows takes a body apart whose array of this name is judged item by item: what an item must be, and what is left of the
// body, for which any items will do and only their number counts.
func (b *Body) Rows(name string) (envelope, item *Body, err error) {
	whole, ok := b.rule.(*object)
	if !ok {
		return nil, nil, fmt.Errorf("%s: is in no object", name)
	}
	rest := *whole
	rest.members = nil
	for _, m := range whole.members {
		if m.name == name {
			items, ok := m.rule.(*array)
			if !ok {
				return nil, nil, fmt.Errorf("%s: is no array", name)
			}
			item = &Body{items.items}
			m.rule = &array{items: anything{}, low: items.low, high: items.high}
		}
		rest.members = append(rest.members, m)
	}
	if item == nil {
		return nil, nil, fmt.Errorf("%s: there is no such member", name)
	}
	return &Body{&rest}, item, nil
}
