"""TFRecord and ArrayRecord: formats whose records are tf.train.Examples."""
