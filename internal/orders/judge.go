package orders

// Judge says what is wrong with a placement that no database is needed for: fault.ValidationFailed, as Place would.
func Judge(p Placement) error {
	_, err := draft(p)
	return err
}
