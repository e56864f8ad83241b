package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"orderonce/internal/fault"
)

// maxDepth bounds how deep a document may nest. The contract's deepest has 3 levels.
const maxDepth = 16

// receive has a request's body read, at most limit bytes of it and for at most patience. It returns what read does, or
// fault.UnsupportedMediaType, fault.BodyTooLarge, fault.RequestTimeout or fault.InvalidRequest.
func (o *operation) receive(
	w http.ResponseWriter, r *http.Request, limit int64, patience time.Duration, read func(media string, body io.Reader) error,
) error {
	media, err := o.mediaType(r.Header)
	if err != nil {
		return err
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bound the body's time: %w", err)
	}
	body := &incoming{Reader: http.MaxBytesReader(w, r.Body, limit)}
	wrong := read(media, body)
	if wrong != nil {
		_, _ = io.Copy(io.Discard, body) // a client that still sends would not hear what is wrong
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(body.err, &over):
		return tooLarge(limit)
	case errors.Is(body.err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close") // what is left of the body would be read as the next request
		return fault.New(fault.RequestTimeout, fmt.Sprintf("The body did not arrive within %s.", patience))
	case body.err != nil:
		return fault.New(fault.InvalidRequest, "The body ended early.")
	}
	// The server watches the connection while the request is answered; this deadline would cancel it.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("end the body's time: %w", err)
	}
	return wrong
}

// incoming is a body that remembers why it ended before its end: whoever reads it may take that for an error of its own.
type incoming struct {
	io.Reader
	err error
}

func (i *incoming) Read(into []byte) (int, error) {
	n, err := i.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		i.err = err
	}
	return n, err
}

// readDocument is receive of one JSON document, decoded.
func (o *operation) readDocument(w http.ResponseWriter, r *http.Request, limit int64, patience time.Duration) (document any, err error) {
	err = o.receive(w, r, limit, patience, func(_ string, body io.Reader) error {
		text, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		document, err = decode(text)
		return err
	})
	return document, err
}

// mediaType is that of the body, one that the operation takes.
func (o *operation) mediaType(h http.Header) (string, error) {
	unsupported := fault.New(fault.UnsupportedMediaType, "The body must be "+strings.Join(o.media, " or ")+" in UTF-8, and not compressed.")
	if encoding := h.Values("Content-Encoding"); len(encoding) > 0 && (len(encoding) > 1 || encoding[0] != "identity") {
		return "", unsupported
	}
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return "", unsupported
	}
	if types[0] == "application/json" {
		return types[0], nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || !slices.Contains(o.media, media) {
		return "", unsupported
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return "", unsupported
		}
	}
	return media, nil
}

func tooLarge(limit int64) error {
	return fault.New(fault.BodyTooLarge, fmt.Sprintf("The body may have %d bytes at most.", limit))
}

// decode reads one JSON document as map[string]any, []any, string, int64, bool and nil. It refuses, with the place
// as fault.InvalidRequest, what JSON readers disagree about: duplicate members, invalid UTF-8 and lone surrogates, NUL
// in strings, numbers that are no int64 as written, trailing bytes, and deep nesting.
func decode(document []byte) (any, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, fault.New(fault.InvalidRequest, "The body is empty.")
	}
	in, _ := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(in)
	d := decoder{in: in}
	d.read(document)
	defer d.read(nil) // the decoder outlives the document
	value, err := d.value(0)
	if err != nil {
		return nil, err
	}
	return value, d.end()
}

// decoders are used again: a new one allocates as much as a small order.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

type decoder struct {
	in    *jsontext.Decoder
	until int64 // the offset behind which a value may not go on; 0 for none
}

// errTooLong says that a value went on for too long.
var errTooLong = errors.New("the value is too long")

// read begins a document. That no member is there twice is seen when it is put into its map, at no price.
func (d decoder) read(document []byte) {
	d.in.Reset(bytes.NewBuffer(document), jsontext.AllowDuplicateNames(true))
}

// end wants the document to be all there is.
func (d decoder) end() error {
	if _, err := d.in.ReadToken(); !errors.Is(err, io.EOF) {
		return fault.New(fault.InvalidRequest, "There is something after the JSON document.")
	}
	return nil
}

func (d decoder) value(depth int) (any, error) {
	if d.until > 0 && d.in.InputOffset() > d.until {
		return nil, errTooLong
	}
	if depth > maxDepth {
		return nil, d.refuse("is nested too deeply")
	}
	t, err := d.in.ReadToken()
	if err != nil {
		return nil, d.broken(err)
	}
	switch t.Kind() {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.text(t)
	case '0':
		return d.integer(t.String())
	case 't', 'f':
		return t.Bool(), nil
	default: // null: a document that ends here fails when its token is read
		return nil, nil
	}
}

func (d decoder) object(depth int) (any, error) {
	members := map[string]any{}
	for d.in.PeekKind() != '}' {
		t, err := d.in.ReadToken()
		if err != nil {
			return nil, d.broken(err)
		}
		name, err := d.text(t)
		if err != nil {
			return nil, err
		}
		if _, twice := members[name]; twice {
			return nil, d.refuse("is there twice")
		}
		if members[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.in.ReadToken()
	return members, d.broken(err)
}

func (d decoder) array(depth int) (any, error) {
	items := make([]any, 0, 4)
	for d.in.PeekKind() != ']' {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := d.in.ReadToken()
	return items, d.broken(err)
}

func (d decoder) text(t jsontext.Token) (string, error) {
	s := t.String()
	if strings.IndexByte(s, 0) >= 0 {
		return "", d.refuse("contains NUL")
	}
	return s, nil
}

func (d decoder) integer(literal string) (any, error) {
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil || literal == "-0" {
		return nil, d.refuse("is not written as a 64-bit integer")
	}
	return n, nil
}

func (d decoder) refuse(reason string) error {
	return &fault.Error{Kind: fault.InvalidRequest, Fields: []fault.Field{{
		Pointer: string(d.in.StackPointer()), Reason: reason,
	}}}
}

// broken explains a syntax error by its place, in words of ours: the library's quote the document.
func (d decoder) broken(err error) error {
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return fault.New(fault.InvalidRequest, "The JSON document ends early.")
	}
	return &fault.Error{Kind: fault.InvalidRequest, Fields: []fault.Field{{
		Pointer: string(syntax.JSONPointer), Reason: fmt.Sprintf("is broken JSON at byte %d", syntax.ByteOffset),
	}}}
}
