"""TFRecord and ArrayRecord, of tf.train.Example."""
